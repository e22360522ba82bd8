// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/cache_body.h"
#include "reprise/cache_key.h"
#include "reprise/cache_statistics.h"
#include "reprise/capture_options.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/device_view.h"
#include "reprise/graph_memory.h"

/// \file
/// GraphCache: many graphs of one piece of a program, one for each key, within bounds.

namespace reprise {

namespace cache_detail {
struct CacheAccess;
}

/// Way in which the inputs of an entry reach its graph.
enum class CacheInputs {
  /// The graph is changed to use the memory of the call where every use of it can be read: kernel arguments that the
  /// driver describes, copies and sets. Otherwise as `copy`. Addresses that lie in device memory, such as tables of
  /// pointers, cannot be seen, and no distance from one input to another: a body that makes them needs `copy`. Padded
  /// calls, graphs with check_input_liveness or `inputs.retain`, inputs that are not aligned to 256 bytes, and those in
  /// other memory than the device's that copies or sets use are copied in any case.
  patch,
  /// One kernel copies all inputs into memory of the entry, before the replay.
  copy,
};

/// Place of the results of a call.
enum class CacheOutputs {
  alias,  ///< in memory of the entry, until its next call; using them later throws UsageError
  copy,   ///< in new memory, by one kernel more
};

/// Options of a GraphCache.
struct GraphCacheOptions {
  using Padding = std::function<std::size_t(std::size_t length)>;

  std::string name = {};         ///< names the cache in errors, warnings and its graphs; may be empty
  std::size_t max_entries = 64;  ///< the number of graphs; at least 1
  /// Device memory of all entries, in bytes: the pool, copied inputs, results. 0: a quarter of the device's memory.
  std::uint64_t max_bytes = 0;
  /// The first calls of a key run eagerly. 0: not even the first one, unless a bound is reached and records of keys
  /// were dropped, of which it may be one.
  std::size_t capture_after = 2;
  /// Each n-th replay of a key captures the body again, and refuses the call if that differs from the entry. 0: none.
  std::size_t check_every = 0;
  CacheInputs inputs = CacheInputs::patch;
  CacheOutputs outputs = CacheOutputs::alias;
  /// Rounds a length up to that of a bucket, for run_padded().
  Padding padding = {};
  /// Names of the fields of keys, in order, for texts. There may be fewer.
  std::vector<std::string> key_fields = {};
  /// Options for capturing entries. `pool`, `stream`, `warmup`, `keep_graph`, `discard_template`,
  /// `check_frozen_values` and `name` belong to the cache.
  GraphOptions capture = {.capture_error_mode = CaptureMode::thread};
};

/// Why a key always runs eagerly.
struct CacheFailure {
  std::string what;
  std::optional<CaptureReport> report = {};  ///< of the capture, if there is one
};

/// Graphs of one piece of a program, one for each key: captured when a key has been called a few times, replayed from
/// then on, released when the bounds are reached.
///
///     reprise::GraphCache cache({.max_entries = 32});
///     auto y = cache.run({n}, reprise::inputs(x), [&](reprise::DeviceView<const float> x) { return forward(x); });
///
/// A key goes through these states:
///
///     unknown  -> counted    the first `capture_after` calls, which run eagerly
///     counted  -> captured   the next call: captures and replays
///     captured -> captured   later calls: replay
///     captured -> counted    eviction by a bound, or for lack of device memory; the next call captures again, unless
///                            that would thrash
///     counted  -> eager      the capture failed, or its graph needs more than max_bytes: each call runs eagerly
///     captured -> eager      check_every found a difference, or its capture failed
///     counted  -> counted    a call of another thread, not of the body, broke the capture: this call runs eagerly, and
///                            a later one captures again; after ten such captures in a row the key is eager
///     any      -> unknown    forget(), clear(); the record of a key without a graph is dropped, as 4096 are kept
///
/// *Each call takes effect once.* A capture runs nothing on the device; the replay after it does. The code of the body
/// on the host runs when the body runs eagerly or is captured, not in a replay; in a call whose capture fails it runs
/// twice. The body submits its work to the current stream, or to streams that are forked from it and joined: work on
/// the caller's stream, which is another one while the body is captured, or on the legacy default stream, would be
/// executed at once and be missing in replays. A call of this library that submits such work throws UsageError, as does
/// the call of the cache, and the key runs eagerly from then on; likewise where the body passes a Parameter to
/// launch(), which nothing could set later.
///
/// *Control flow* runs in graphs only. A key whose graph has some is captured where another one would run eagerly: its
/// graph takes the place of others, with one warning for the cache if these are in use. Set `capture_after = 0`.
///
/// *Errors.* An exception of a body that runs eagerly is the caller's, and changes nothing here. Where the body throws
/// in a capture, it runs once more, eagerly, if the exception may be one of the capture: an Error of this library, or
/// any exception in a capture that is broken. If it throws again, that is the caller's; else the capture has failed.
/// capture() runs nothing eagerly: an exception in a capture that is not broken is the caller's there.
///
/// *Inputs* may lie elsewhere in each call, and must have the sizes of the capture. What else the body uses must stay
/// where it is, or be changed with the key.
///
/// *Results* are what the body returns: nothing, a Buffer, or a `std::vector`, `std::array`, `std::tuple` or
/// `std::pair` of buffers, made by the body. The call returns the same with a CacheResult for each.
///
/// *Memory.* All entries share one pool, in which they overwrite each other: memory that a body allocates and keeps
/// elsewhere than in its results is not safe there.
///
/// *Eager parts.* The body may call eager(), see breakable.h: the capture then takes effect piece by piece, inputs are
/// copied in any case, check_every finds nothing, and capture() leaves the key as it is, without a graph. An
/// error after the first eager part is the caller's, as the body must not run twice; the key runs eagerly from then on
/// if the error may be one of the capture. Eager parts must not call the cache, and must not refer to local variables
/// of the caller of run() either, which are others at the next call: those are not found.
///
/// *Streams.* The body runs, and replays are launched, on the calling thread's current stream of the device of the
/// cache. A replay on another stream than the last one waits for that one, on the device, and for what was submitted
/// until now to the stream of the last replay of its key, which may read the results: not where other code made that
/// stream.
///
/// *Threads.* Every function is thread-safe, except the destructor. Captures and replays of one cache are made one
/// after another; eager runs at once. Threads whose work shall overlap on the device need a cache each. A body that is
/// captured must not wait for a thread that calls the cache.
///
/// The destructor does not wait for replays. Where none runs, the pool goes back to the driver, which may wait for all
/// work of the device; so it does where clear() or forget() release the last graph. Results that still live keep their
/// memory.
class REPRISE_EXPORT GraphCache {
 public:
  /// \throws UsageError for bounds of zero, or options of captures that belong to the cache.
  explicit GraphCache(GraphCacheOptions options = {}, Device device = current_device());
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  /// Runs the body, or a graph of it.
  /// `key` is what the work depends on besides the inputs; `inputs`, from reprise::inputs(), are passed to the body as
  /// DeviceView.
  ///
  /// A key stands for one body. Bodies are distinguished by their type, pointers to functions also by their value, and
  /// `std::function`s by the type of what they hold, or the value where that is a pointer to a function with the
  /// parameters and the result of the std::function. Function objects of one type are not distinguished, such as
  /// lambdas of one place that hold other values: what they hold belongs to the key, or must not matter for the work.
  /// GraphCacheOptions::check_every finds where it does.
  /// \returns what the body returns, with a CacheResult for each Buffer.
  /// \throws UsageError if the current stream is being captured; within a body of the same cache that is captured; for
  ///         an empty std::function or a null pointer; for inputs of other sizes, or another body, than the key was
  ///         captured with; if check_every finds a difference. DeadInputError in the call that captures a body which
  ///         replaces memory that it uses. What the body throws. BackendError, OutOfMemoryError.
  template <class... T, class F>
  auto run(const CacheKey& key, const std::tuple<DeviceView<T>...>& inputs, F&& body) {
    return run_lengths<T...>(key, inputs, body, {});
  }
  /// As above, without inputs.
  template <class F>
  auto run(const CacheKey& key, F&& body) {
    return run_lengths<>(key, std::tuple<>(), body, {});
  }

  /// As run(), padded: `length` is rounded up by GraphCacheOptions::padding, and becomes the last field of the key,
  /// also for forget(), contains() and failure(). Each input has `length` rows, its leading dimension; the body gets
  /// the padded length and copies of the inputs that are padded with zero bytes, and returns buffers with as many rows.
  /// padded_with() gives an input another value, and not_padded() takes one without rows, as it is. Results show the
  /// first `length` rows of them. What is changed in an `inout` input, without the padding, is copied back.
  /// \throws UsageError without GraphCacheOptions::padding, for a length of 0, for inputs or results with rows whose
  ///         sizes are no multiple of the length.
  template <class... Input, class F>
  auto run_padded(const CacheKey& key, std::size_t length, const std::tuple<Input...>& inputs, F&& body) {
    const cache_detail::Lengths lengths{length, padded_length(length)};
    return run_lengths<typename Input::element_type...>(
        CacheKey(key).add(lengths.padded), inputs,
        cache_detail::PaddedBody<std::remove_reference_t<F>>{body, lengths.padded}, lengths);
  }

  /// Captures a key ahead, whatever `capture_after` is. Nothing takes effect: of the inputs the sizes count.
  /// \returns true if the key has a graph now; false if its capture failed (failure()), now or before, if there is no
  ///          room or device memory without releasing another entry, or if the body has eager parts, which run real
  ///          work.
  /// \throws UsageError as run(). What the body throws, unless the capture is broken; that changes nothing.
  template <class... T, class F>
  bool capture(const CacheKey& key, const std::tuple<DeviceView<T>...>& inputs, F&& body) {
    return capture_lengths<T...>(key, inputs, body, {});
  }
  /// As above, without inputs.
  template <class F>
  bool capture(const CacheKey& key, F&& body) {
    return capture_lengths<>(key, std::tuple<>(), body, {});
  }
  /// As above, for run_padded().
  template <class... Input, class F>
  bool capture_padded(const CacheKey& key, std::size_t length, const std::tuple<Input...>& inputs, F&& body) {
    const cache_detail::Lengths lengths{length, padded_length(length)};
    return capture_lengths<typename Input::element_type...>(
        CacheKey(key).add(lengths.padded), inputs,
        cache_detail::PaddedBody<std::remove_reference_t<F>>{body, lengths.padded}, lengths);
  }

  /// Releases the entry of a key, and forgets its count or failure. \returns false if the key was unknown.
  bool forget(const CacheKey& key);
  /// As forget() for all keys. The statistics stay.
  void clear();

  /// Why a key runs eagerly; nullopt if it does not.
  std::optional<CacheFailure> failure(const CacheKey& key) const;
  /// True if the key has a graph.
  bool contains(const CacheKey& key) const;
  std::size_t size() const;  ///< the number of entries

  GraphCacheStatistics statistics() const;
  /// The memory of all graphs of the cache now, with an estimate of what the driver needs for them, which `max_bytes`
  /// does not count. GraphCacheStatistics::entry_bytes come in addition.
  GraphMemory memory() const;
  Device device() const noexcept;
  MempoolId pool() const;  ///< that all entries share now

 private:
  friend struct cache_detail::CacheAccess;

  template <class... T, class Inputs, class F>
  auto run_lengths(const CacheKey& key, const Inputs& inputs, F&& body, const cache_detail::Lengths& lengths) {
    const cache_detail::BodyOf<std::remove_reference_t<F>, T...> typed(body);
    const auto memory = cache_detail::memory_of(inputs, lengths);
    const cache_detail::Call call{key, memory, typed, lengths};
    return cache_detail::results_of<typename decltype(typed)::Returned>(run_call(call), lengths);
  }
  template <class... T, class Inputs, class F>
  bool capture_lengths(const CacheKey& key, const Inputs& inputs, F&& body, const cache_detail::Lengths& lengths) {
    const cache_detail::BodyOf<std::remove_reference_t<F>, T...> typed(body);
    const auto memory = cache_detail::memory_of(inputs, lengths);
    return capture_call({key, memory, typed, lengths});
  }

  cache_detail::Outcome run_call(const cache_detail::Call& call);
  bool capture_call(const cache_detail::Call& call);
  std::size_t padded_length(std::size_t length) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

namespace cache_detail {

/// Calls of a cache with a body whose types are not those of GraphCache::run(), and what a cache has. For internal use.
struct CacheAccess {
  static Outcome run(GraphCache& cache, const Call& call) { return cache.run_call(call); }
  static bool capture(GraphCache& cache, const Call& call) { return cache.capture_call(call); }
};

}  // namespace cache_detail
}  // namespace reprise
