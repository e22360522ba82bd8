// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "backend/objects/thread_tag.h"
#include "cache/entry.h"
#include "cache/records.h"
#include "graph/launch_mutex.h"
#include "reprise/graph_cache.h"

namespace reprise {

/// The implementation of a GraphCache.
///
/// `mutex` guards everything; it is held while a body is captured, but not while one runs eagerly. A call goes through
///
///     find the record -> replay
///                     -> capture, replay, make room, keep within the bytes
///                     -> run eagerly (unlocked), note it
struct GraphCache::Impl {
  using Record = caches::Record;
  using Call = cache_detail::Call;
  using Outcome = cache_detail::Outcome;
  class Lock;
  using Clock = std::chrono::steady_clock;

  Impl(GraphCacheOptions wanted, const Device& device);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // --- Calls: graph_cache_calls.cpp -------------------------------------------------------------------------------
  Outcome run(const Call& call);
  bool capture_ahead(const Call& call);
  /// Replays the entry of a record; false if the call must run eagerly, for a reason that is set.
  bool replay(Record& record, const Call& call, const StreamRef& stream, Outcome& outcome);
  /// As capture(), for a run. Without memory for it, releases idle entries and captures once more.
  std::shared_ptr<caches::Entry> capture_in_room(const Call& call, const StreamRef& stream);
  /// Captures and replays; false likewise.
  bool capture_and_replay(const Call& call, const StreamRef& stream, Outcome& outcome);
  Outcome run_eagerly(Lock& lock, const Call& call, const StreamRef& stream);
  /// \param run where eager parts of the body run; null: nothing may take effect.
  std::shared_ptr<caches::Entry> capture(const Call& call, const StreamRef* run);
  /// False if the body could not be captured: `failed` has the reason, and the call runs eagerly.
  bool check(Record& record, const Call& call);
  /// True if this call captures the key; otherwise the reason is set.
  bool may_capture(const CacheKey& key, const Record* record);
  /// \throws UsageError for a key whose capture failed, and whose body has control flow.
  [[noreturn]] void refuse_eager_run(const Record& record) const;
  /// A call of another thread broke the capture of the key. True if a later call of it captures again.
  bool note_broken(const CacheKey& key);
  /// Calls `capture`. Where that fails because the body freed memory that it used, and the program has memory of the
  /// capture instead, nothing has computed what an eager run would read: the error is the call's.
  template <class Capture>
  auto watching_state(const Capture& capture);
  void set_entry(Record& record, std::shared_ptr<caches::Entry> entry);
  /// The current stream, which must not be in a capture. To be called without the mutex.
  StreamRef require_outside_of_captures(const char* name) const;
  void note_use(Record& record) {
    record.last_use = ++calls;
    records.used(record);
  }

  // --- Bounds: bounds.cpp ------------------------------------------------------------------------------------------
  std::uint64_t pool_bytes() const;
  std::uint64_t used_pool_bytes() const;  ///< in use, also by a framework
  std::uint64_t entry_bytes();
  std::uint64_t bytes() { return pool_bytes() + entry_bytes(); }
  void release_leftovers();
  /// Releases entries until there is room for one more.
  void make_room();
  void evict(Record& record, RecaptureCause cause);
  void release(Record& record);
  /// Bytes that a new entry needs on its own, at least: its memory, and the growth of the pool. If that is more than
  /// max_bytes, releasing other entries is no use.
  std::uint64_t added_bytes(const caches::Entry& entry) const;
  /// The failure of a key whose entry needs so many bytes, with a warning for the first one.
  std::shared_ptr<const CacheFailure> too_large(const CacheKey& key, std::uint64_t needed);
  /// Destroys an entry that never was launched. What the pool has grown by in its capture goes back to the driver.
  void discard(std::shared_ptr<caches::Entry>& entry);
  /// After a capture: releases other entries, or else this one. `added`: added_bytes().
  void keep_within_bytes(Record& fresh, std::uint64_t added);
  /// Releases the entries that were not used since the last call of the key, if any, and if those may have as much
  /// device memory as is missing. False if nothing was released.
  /// \param record of the key; may be null.
  bool release_idle(const Record* record, std::uint64_t missing);
  /// True if its capture would release an entry that was used since the last call of the key.
  bool would_thrash(const Record& record);
  /// True if a key without a record may have had one, and its capture would release an entry.
  bool may_be_forgotten() const;
  void warn_of_thrashing(const CacheKey& key, bool needs_capture);
  /// After a call without a replay of an earlier capture: warns once if most calls are such, although the cache has had
  /// enough of them to capture all graphs that it may hold.
  void warn_if_unsettled();
  std::string changing_fields() const;
  void begin_pool();

  // --- Counts: cache_statistics.cpp --------------------------------------------------------------------------------
  static void count(CacheCount& what, Clock::time_point since) {
    ++what.number;
    what.time += Clock::now() - since;
  }
  /// Counts a recapture, before its entry is stored.
  void count_recapture(const Record& record);
  void add_reason(RecaptureCause cause, std::string field);
  GraphCacheStatistics statistics();

  std::string key_text(const CacheKey& key) const;

  const GraphCacheOptions options;
  const std::uint64_t max_bytes;
  // Members that a hit touches lie together, and `shared` begins with the rest of them, see CUDAGraph::Impl.
  alignas(64) graphs::LaunchMutex mutex;
  std::atomic<const void*> holder{nullptr};  // backend::thread_tag() of the thread that holds the mutex
  std::uint64_t calls = 0;
  std::uint64_t hits = 0;
  const std::size_t check_every;  // of the options
  bool has_leftovers = false;     // what ran of a failed capture holds memory of the pool, until it is over
  caches::Shared shared;
  caches::Records records;          // after `shared`, whose streams outlive the entries
  std::uint64_t pool_captures = 0;  // in the present pool
  std::uint64_t pool_before = 0;    // pool_bytes() before the last capture
  bool warned_of_thrashing = false;
  bool warned_of_size = false;
  bool warned_of_unsettled = false;
  bool has_control_flow = false;        // a graph has, or had, some
  std::uint64_t calls_without_hit = 0;  // since `hits_before`
  std::uint64_t hits_before = 0;
  bool evicts_for_bytes = false;  // entries were released because of the bytes
  GraphCacheStatistics counts;    // but for hits
  std::map<std::pair<RecaptureCause, std::string>, std::uint64_t> reasons;

  // Why the current call runs eagerly.
  EagerCause cause = EagerCause::counted;
  std::shared_ptr<const CacheFailure> failed;
};

/// Holds the mutex. Refused on a thread that holds it already: in a body that the cache captures, and in hooks of its
/// graphs.
class GraphCache::Impl::Lock {
 public:
  /// \param name the public name of the call.
  /// \throws UsageError
  Lock(Impl& impl, const char* name) : impl_(impl) {
    if (impl_.holder.load(std::memory_order_relaxed) == backend::thread_tag()) [[unlikely]]
      refuse(name);
    lock();
  }
  ~Lock() {
    if (held_) unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() {
    impl_.mutex.lock();
    impl_.holder.store(backend::thread_tag(), std::memory_order_relaxed);
    held_ = true;
  }
  void unlock() {
    impl_.holder.store(nullptr, std::memory_order_relaxed);
    impl_.mutex.unlock();
    held_ = false;
  }

 private:
  [[noreturn]] static void refuse(const char* name);

  Impl& impl_;
  bool held_ = false;
};

}  // namespace reprise
