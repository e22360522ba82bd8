// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/device.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace reprise::captures {

namespace detail {

/// The place of a concern among the slots of every capture; allotted at first use. Constant-initialized, so that it
/// works during the construction of static objects.
class SlotNumber {
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
/// underway when a Stream is about to be destroyed. No lock of this floor is held then.
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

/// One capture of this library, from before the runtime begins it until all concerns are done with it.
///
///     announced -> begun (has an id) -> over (the runtime captures no more)
///
/// Made and ended by a Registration (captures/registry.h). Others hold it as long as they need it; after its end it has
/// no ids and nothing attached.
///
/// Thread-safe. Its mutex is held for no call of anything else.
class Capture {
 public:
  Capture(const StreamRef& stream, CaptureErrorMode mode, MempoolId pool)
      : stream_(stream), mode_(mode), pool_(pool), owner_(std::this_thread::get_id()) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  const StreamRef& stream() const noexcept { return stream_; }  ///< the one that it begins on
  Device device() const noexcept { return stream_.device(); }
  CaptureErrorMode mode() const noexcept { return mode_; }
  MempoolId pool() const noexcept { return pool_; }          ///< where its allocations come from
  std::thread::id owner() const noexcept { return owner_; }  ///< the thread that began it

  /// The runtime captures no more.
  bool is_over() const noexcept { return over_.load(std::memory_order_relaxed); }

  /// The runtime's number of this capture, or of one of a conditional body. Unique among the devices of a type.
  void add_id(std::uint64_t id);
  bool has_id(std::uint64_t id) const noexcept;
  bool has_ids() const noexcept;

  /// Notifies what is attached that a stream is about to be destroyed.
  void stream_ends(const StreamRef& stream) noexcept;

  /// Keeps `value` for a concern until detach(), in the place of what was there.
  template <class T>
  void attach(const Slot<T>& slot, std::shared_ptr<T> value) {
    put(slot.number_.get(), {std::move(value), stream_end_of<T>()});
  }
  /// Null if nothing is attached.
  template <class T>
  std::shared_ptr<T> get(const Slot<T>& slot) const noexcept {
    return std::static_pointer_cast<T>(value_at(slot.number_.get()));
  }
  /// Returns what was attached, or null.
  template <class T>
  std::shared_ptr<T> detach(const Slot<T>& slot) noexcept {
    return std::static_pointer_cast<T>(take(slot.number_.get()));
  }

 private:
  friend class Registration;

  using StreamEnd = void (*)(void* value, const StreamRef& stream) noexcept;
  struct Attached {
    std::shared_ptr<void> value = nullptr;
    StreamEnd stream_ends = nullptr;
  };

  template <class T>
  static constexpr StreamEnd stream_end_of() noexcept {
    if constexpr (requires(T & value, const StreamRef& stream) { value.stream_ends(stream); })
      return [](void* value, const StreamRef& stream) noexcept { static_cast<T*>(value)->stream_ends(stream); };
    else
      return nullptr;
  }

  void put(std::size_t number, Attached attached);
  std::shared_ptr<void> value_at(std::size_t number) const noexcept;
  std::shared_ptr<void> take(std::size_t number) noexcept;
  void become_over() noexcept;
  void detach_all() noexcept;

  const StreamRef stream_;
  const CaptureErrorMode mode_;
  const MempoolId pool_;
  const std::thread::id owner_;
  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;  // guards the rest
  std::vector<std::uint64_t> ids_;
  std::vector<Attached> attached_;  // by the number of the slot
};

}  // namespace reprise::captures
