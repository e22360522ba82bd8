// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace reprise::graphs {
class FrameworkCaptures;
}

namespace reprise::backend {

/// A framework in the same process, such as libtorch, which has streams, memory and work of its own: the one interface
/// between the two. What a framework does not override stays as it is without one.
///
/// Installed once, as early as the program starts, and until the process ends: must not initialise a device type before
/// a function is called with a device of that type.
///
/// All functions are thread-safe; 'current' means current in the calling thread.
class Framework {
 public:
  /// For error texts.
  virtual std::string_view name() const noexcept = 0;

  // --- What is current ------------------------------------------------------------------------------------------
  /// True if the current streams and the current device of this type are the framework's: the next four are for these.
  virtual bool keeps_current(DeviceType /*type*/) const noexcept { return false; }
  virtual StreamHandle current_stream(int /*device*/) const noexcept { return nullptr; }
  virtual void set_current_stream(int /*device*/, StreamHandle /*stream*/) const noexcept {}
  virtual int current_device() const noexcept { return 0; }
  virtual void set_current_device(int /*device*/) const noexcept {}
  /// True for a stream of the framework that is never destroyed: its handle never names another one.
  virtual bool owns_forever(const StreamRef& /*stream*/) const noexcept { return false; }
  /// True if the framework may use a stream of this type after the end of its Stream. Then no handle is destroyed:
  /// later Streams reuse them.
  virtual bool keeps_streams(DeviceType /*type*/) const noexcept { return false; }

  // --- Memory ---------------------------------------------------------------------------------------------------
  /// The next id of a memory pool, where both libraries take theirs from one counter. `by_user`: for
  /// graph_pool_handle(), else for a capture without one. The numbers of a framework ascend.
  virtual std::optional<MempoolId> new_pool_id(bool /*by_user*/) const { return std::nullopt; }
  /// Releases cached memory of a device to the driver: for an allocation that finds none left, and before a capture
  /// that begins on an idle device. Called without a lock, in capture mode `relaxed`, maybe while captures are
  /// underway.
  virtual void empty_cache(const Device& /*device*/) const noexcept {}
  /// Releases cached pinned memory: before a capture that begins on an idle device, as empty_cache().
  virtual void empty_pinned_cache(const Device& /*device*/) const noexcept {}
  /// Bytes of a private pool of the framework's.
  struct PoolBytes {
    std::uint64_t reserved = 0, allocated = 0;
  };
  /// Bytes of the pool with this id on a device now; for the id that names none, of all private pools. Called without a
  /// lock, maybe while captures are underway.
  virtual PoolBytes pool_bytes(const Device& /*device*/, MempoolId /*pool*/) const noexcept { return {}; }
  /// A block of the framework's allocator.
  struct Block {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    std::uintptr_t segment = 0;  ///< where the memory that it is a part of begins, as the driver provided it
    MempoolId pool = {};         ///< the private pool; the id that names none: no private pool
    bool in_use = false;
  };
  /// All blocks of a device now, in use or not, by ascending address; those of a segment leave no gap. Called without a
  /// lock.
  /// \throws UsageError if the framework has an allocator that does not report them.
  virtual std::vector<Block> blocks(const Device& /*device*/) const { return {}; }
  /// The stacks of allocations are recorded from now on.
  virtual void allocation_stacks_wanted() const {}

  // --- Captures -------------------------------------------------------------------------------------------------
  /// The part of the framework that takes part in captures; null if there is none.
  virtual const graphs::FrameworkCaptures* captures() const noexcept { return nullptr; }

 protected:
  Framework() = default;
  ~Framework() = default;  // a framework must outlive graphs, which may live longer than static objects
  Framework(const Framework&) = default;
  Framework& operator=(const Framework&) = default;
};

/// Installs the framework of this process. What guards of this library made current on the calling thread becomes
/// current there at once, on other threads when they next query it. Installing the same one again does nothing.
/// \throws UsageError if there is another one.
REPRISE_EXPORT_INTERNAL void install_framework(const Framework& framework);

namespace framework_detail {
REPRISE_EXPORT_INTERNAL inline std::atomic<const Framework*> installed{nullptr};
void hand_over_current_streams(const Framework& framework);
void hand_over_current_device(const Framework& framework) noexcept;
}  // namespace framework_detail

/// Null if there is none, as in most programs.
inline const Framework* installed_framework() noexcept {
  return framework_detail::installed.load(std::memory_order_acquire);
}
/// True if it keeps what is current on this device. No framework knows the device of a HostSimulator.
inline bool keeps_current(const Framework& framework, const Backend& device) noexcept {
  return !device.of_simulator() && framework.keeps_current(device.type());
}
/// The framework that keeps what is current on a device; null if this library does.
inline const Framework* keeper_of_current(const Device& device) noexcept {
  const Framework* const framework = installed_framework();
  return framework != nullptr && keeps_current(*framework, device.backend()) ? framework : nullptr;
}

// --- What guards of this library do, for a framework that has guards of its own -----------------------------------

/// Makes a device the calling thread's current one.
REPRISE_EXPORT_INTERNAL void set_current_device(Device device) noexcept;
/// Makes a stream the calling thread's current one of its device; returns the one before. The current device stays.
REPRISE_EXPORT_INTERNAL StreamRef exchange_current_stream(const StreamRef& stream);

}  // namespace reprise::backend
