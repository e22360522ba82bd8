// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "captures/body.h"
#include "reprise/capture_options.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace reprise::captures {

namespace detail {

/// The place of a concern among the slots of every capture; allotted at first use. Constant-initialized, so that it
/// works during the construction of static objects.
class REPRISE_EXPORT_INTERNAL SlotNumber {
 public:
  constexpr SlotNumber() = default;
  std::size_t get() const noexcept;

 private:
  mutable std::atomic<std::size_t> number_{0};  // 0: not allotted yet
};

}  // namespace detail

/// The place where one concern keeps what it knows of a capture: a constant of static storage, defined once for each
/// concern in the source that owns it.
///
/// If T has a member `stream_ends(const StreamRef&) noexcept`, it is called for what is attached to a capture that is
/// underway when a Stream is about to be destroyed; a member `capture_ends() noexcept`, when the capture is about to be
/// ended or abandoned, and the runtime still knows it. No lock of this floor is held then.
template <class T>
class Slot {
 public:
  constexpr Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  friend class Capture;
  detail::SlotNumber number_;
};

/// The shared record of a capture of this library: found by stream or id, with a slot for each concern. Exists from
/// before the runtime begins the capture until all concerns are done with it.
///
///     announced -> begun (has an id in the runtime) -> over (the runtime captures no more)
///
/// Owned by its Registration (captures/registry.h), which ends it; others share it as long as they need it. After its
/// end it has no ids and nothing attached. What a concern keeps is usually made when the capture first needs it: most
/// captures need little.
///
/// Thread-safe. Its mutex is held for no call of anything else, except for the query of its id: the stream is there
/// until the capture is over.
class REPRISE_EXPORT_INTERNAL Capture {
 public:
  /// \param options stay the caller's.
  /// \param pool the one that the options name, else a new one.
  Capture(const StreamRef& stream, const GraphOptions& options, MempoolId pool)
      : stream_(stream),
        options_(options),
        mode_(options.capture_error_mode),
        name_(options.name),
        reports_in_full_(options.report == ReportDetail::full),
        allows_empty_(options.allow_empty),
        pool_(pool),
        owner_(std::this_thread::get_id()) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  const StreamRef& stream() const noexcept { return stream_; }  ///< the one that it begins on
  Device device() const noexcept { return stream_.device(); }
  /// As the user gave them. For the thread that begins and ends the capture: others may call while the graph, which
  /// owns these, is emptied, and use mode() to allows_empty(), which are copies.
  const GraphOptions& options() const noexcept { return options_; }
  CaptureMode mode() const noexcept { return mode_; }
  const std::string& name() const noexcept { return name_; }  ///< of the graph
  /// Calls of any thread note where they came from.
  bool reports_in_full() const noexcept { return reports_in_full_; }
  bool allows_empty() const noexcept { return allows_empty_; }  ///< the graph, and bodies
  MempoolId pool() const noexcept { return pool_; }             ///< where its allocations come from
  /// The above, then those of child graphs: memory that the graph of this capture owns, alone or with others.
  std::vector<MempoolId> pools() const;
  void add_pools(const std::vector<MempoolId>& of_child);
  bool owns(MempoolId pool) const noexcept;
  std::thread::id owner() const noexcept { return owner_; }  ///< the thread that began it

  /// The runtime captures no more.
  bool is_over() const noexcept { return over_.load(std::memory_order_relaxed); }
  /// Locked shared while a call on any thread uses an attached value that belongs to the graph of the capture, and
  /// exclusively to detach that. No body of the user's runs under it.
  std::shared_mutex& owner_gate() const noexcept { return owner_gate_; }

  /// The runtime's number of this capture. Unique among the devices of a type. Added by captures::find() when it is
  /// first needed.
  void add_id(std::uint64_t id);
  /// Adds a body: until the capture is over, streams that capture the body take part in this capture.
  void add_body(std::shared_ptr<const Body> body);
  /// The runtime captures this body no more.
  void body_ends(const Body& body) noexcept;
  /// Memory or a workspace is about to be allocated for a stream that captures this body. What is freed on a stream is
  /// reused on it, as ordered work, and a stream that was forked off two bodies is not ordered between them.
  /// \throws UsageError if memory was allocated for this stream in another body, which may run at the same time or in
  ///         another iteration.
  void use_in_body(const StreamRef& stream, const Body& body);
  /// Memory is about to be allocated for a stream of the capture. True, once, if the stream was forked off a body,
  /// given memory there, and now captures the graph around it: what comes next may run beside that body.
  bool leaves_body(const StreamRef& stream) noexcept;
  /// True if memory of this stream that is freed now may be needed by a later iteration: a body that repeats is being
  /// captured, and the stream does not belong to it.
  bool is_outside_open_loop(const StreamRef& stream) const noexcept;
  bool has_loops() const noexcept;  ///< a body repeats; also once the capture is over
  /// True if a body that repeats is, or lies in, this node of the captured graph; also once the capture is over.
  bool repeats(GraphNodeHandle node) const noexcept;
  /// The body whose capture has this id; null if there is none.
  std::shared_ptr<const Body> body(std::uint64_t id) const noexcept;
  /// Queries and stores the runtime's id. Does nothing if one is stored, or the capture has not begun, is broken or
  /// over.
  /// \throws BackendError if the runtime refuses the query.
  void query_id();
  /// Returns the runtime's id; 0 if the runtime does not give it, because the capture has not begun, is broken or over.
  /// \throws BackendError if the runtime refuses the query.
  std::uint64_t id();
  /// True if the id is that of the capture, or of one of its bodies.
  bool has_id(std::uint64_t id) const noexcept;
  bool has_ids() const noexcept;

  /// Notifies what is attached that a stream is about to be destroyed.
  void stream_ends(const StreamRef& stream) noexcept;
  /// Notifies what is attached that the runtime's capture is about to be ended or abandoned.
  void capture_ends() noexcept;

  /// Keeps `value` for a concern until detach(); it replaces what was attached before.
  template <class T>
  void attach(const Slot<T>& slot, std::shared_ptr<T> value) {
    put(slot.number_.get(), {std::move(value), stream_end_of<T>(), capture_end_of<T>()});
  }
  /// Null if nothing is attached.
  template <class T>
  std::shared_ptr<T> get(const Slot<T>& slot) const noexcept {
    if (!may_have(slot.number_.get())) return nullptr;
    return std::static_pointer_cast<T>(value_at(slot.number_.get()));
  }
  /// What is attached. If nothing is, a Made of these arguments is; null if the capture is over, so that detach() after
  /// the end finds all.
  template <class Made = void, class T, class... Arguments>
  std::shared_ptr<T> get_or_attach(const Slot<T>& slot, Arguments&&... arguments) {
    if (std::shared_ptr<T> there = get(slot)) return there;
    using Object = std::conditional_t<std::is_void_v<Made>, T, Made>;
    std::shared_ptr<T> made = std::make_shared<Object>(std::forward<Arguments>(arguments)...);
    return std::static_pointer_cast<T>(
        put_first(slot.number_.get(), {std::move(made), stream_end_of<T>(), capture_end_of<T>()}));
  }
  /// Returns what was attached, or null.
  template <class T>
  std::shared_ptr<T> detach(const Slot<T>& slot) noexcept {
    if (!may_have(slot.number_.get())) return nullptr;
    return std::static_pointer_cast<T>(take(slot.number_.get()));
  }

 private:
  friend class Registration;

  using StreamEnd = void (*)(void* value, const StreamRef& stream) noexcept;
  using CaptureEnd = void (*)(void* value) noexcept;
  struct Attached {
    std::shared_ptr<void> value = nullptr;
    StreamEnd stream_ends = nullptr;
    CaptureEnd capture_ends = nullptr;
  };

  template <class T>
  static constexpr StreamEnd stream_end_of() noexcept {
    if constexpr (requires(T & value, const StreamRef& stream) { value.stream_ends(stream); })
      return [](void* value, const StreamRef& stream) noexcept { static_cast<T*>(value)->stream_ends(stream); };
    else
      return nullptr;
  }

  template <class T>
  static constexpr CaptureEnd capture_end_of() noexcept {
    if constexpr (requires(T & value) { value.capture_ends(); })
      return [](void* value) noexcept { static_cast<T*>(value)->capture_ends(); };
    else
      return nullptr;
  }

  /// Visits the attached values that have this function.
  template <class End, class Visit>
  void for_each_attached(End Attached::*end, const Visit& visit) const noexcept;
  static constexpr std::uint64_t bit(std::size_t number) noexcept {
    return std::uint64_t{1} << std::min<std::size_t>(number, 63);
  }
  bool may_have(std::size_t number) const noexcept {
    return (attached_to_.load(std::memory_order_relaxed) & bit(number)) != 0;
  }
  Attached& place(std::size_t number);
  void put(std::size_t number, Attached attached);
  std::shared_ptr<void> put_first(std::size_t number, Attached attached);
  std::shared_ptr<void> value_at(std::size_t number) const noexcept;
  std::shared_ptr<void> take(std::size_t number) noexcept;
  void become_over() noexcept;
  void detach_all() noexcept;

  const StreamRef stream_;
  const GraphOptions& options_;
  const CaptureMode mode_;
  const std::string name_;
  const bool reports_in_full_;
  const bool allows_empty_;
  const MempoolId pool_;
  const std::thread::id owner_;
  mutable std::shared_mutex owner_gate_;
  std::atomic<bool> over_{false};  // set under the mutex
  // A bit for each slot that was ever attached to, set under the mutex: the end of a capture looks at each slot, and
  // most are empty. Slots from 63 on share a bit.
  std::atomic<std::uint64_t> attached_to_{0};
  std::atomic<int> open_loops_{0};  // bodies that repeat and are being captured; changed under the mutex
  mutable std::mutex mutex_;        // guards the rest
  std::vector<std::uint64_t> ids_;
  std::vector<std::shared_ptr<const Body>> bodies_;
  std::vector<const Body*> open_bodies_;           // of bodies_: those that are being captured
  std::vector<GraphNodeHandle> nodes_with_loops_;  // of the captured graph
  // Streams that were forked off bodies and given memory there, with the streams of these bodies.
  std::vector<std::pair<StreamRef, StreamRef>> used_in_bodies_;
  std::vector<MempoolId> pools_of_children_;
  std::vector<Attached> attached_;  // by the number of the slot
};

}  // namespace reprise::captures
