// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace reprise::backend {

/// Counts what uses a device that may end before the process does, that of a HostSimulator. The device stays open as
/// long as anything uses it.
///
///     closed -> open -> closed -> open ...    open: from the first simulator's use to the end of the last use
///
/// Thread-safe.
class DeviceUses {
 public:
  enum class Kind { simulator, buffer, stream, event, graph, generator, guard, failure };

  DeviceUses(const DeviceUses&) = delete;
  DeviceUses& operator=(const DeviceUses&) = delete;

  /// One use more. False, without effect, if the device is closed and this is no simulator.
  /// \param name for list(); must stay valid until end(). Null: no name.
  bool begin(Kind kind, std::size_t bytes = 0, const std::string* name = nullptr);
  /// One use less. With none left the device is closed before this returns. The caller must hold no lock.
  void end(Kind kind, std::size_t bytes = 0, const std::string* name = nullptr) noexcept;

  bool is_open() const noexcept;

  /// Lists what uses the device besides its simulator, for example "2 buffers (4096 bytes) and 1 graph (`step`)"; empty
  /// if nothing does.
  std::string list() const;

 protected:
  DeviceUses() = default;
  ~DeviceUses() = default;

 private:
  static constexpr std::size_t kinds = static_cast<std::size_t>(Kind::failure) + 1;

  /// The last use has ended; begin() refuses further ones.
  virtual void close() noexcept = 0;

  mutable std::mutex mutex_;
  std::array<std::size_t, kinds> counts_{};
  std::size_t all_ = 0;
  std::size_t bytes_ = 0;                  // of the buffers
  std::vector<const std::string*> names_;  // of the graphs that have one
};

/// Throws the UsageError of a device that is closed.
[[noreturn]] void refuse_closed(const Device& device);

/// For a device with uses.
/// \throws UsageError if it is closed.
inline void require_open(const Device& device) {
  if (!device.backend().uses()->is_open()) refuse_closed(device);
}

/// One use of a device. Empty for a device that is open until the process ends. Movable.
class DeviceUse {
 public:
  DeviceUse() = default;
  /// \param name for DeviceUses::list(); may be empty.
  /// \throws UsageError if the HostSimulator of the device has ended, and nothing keeps the device open.
  DeviceUse(const Device& device, DeviceUses::Kind kind, const std::string& name = {})
      : uses_(device.backend().uses()), kind_(kind) {
    if (uses_ == nullptr) return;
    if (!name.empty()) name_ = std::make_unique<const std::string>(name);
    if (!uses_->begin(kind_, 0, name_.get())) [[unlikely]]
      refuse_closed(device);
  }
  DeviceUse(DeviceUse&& other) noexcept
      : uses_(std::exchange(other.uses_, nullptr)), kind_(other.kind_), name_(std::move(other.name_)) {}
  DeviceUse& operator=(DeviceUse other) noexcept {
    std::swap(uses_, other.uses_);
    std::swap(kind_, other.kind_);
    std::swap(name_, other.name_);
    return *this;
  }
  ~DeviceUse() {
    if (uses_ != nullptr) [[unlikely]]
      uses_->end(kind_, 0, name_.get());
  }

  explicit operator bool() const noexcept { return uses_ != nullptr; }
  /// Leaves the end of the use to end_use().
  void detach() noexcept { uses_ = nullptr; }

 private:
  DeviceUses* uses_ = nullptr;
  DeviceUses::Kind kind_ = DeviceUses::Kind::simulator;
  std::unique_ptr<const std::string> name_;  // null: no name
};

/// Ends a use that was detached. The device may be closed afterwards: the last thing that its owner does.
inline void end_use(const Device& device, DeviceUses::Kind kind) noexcept {
  if (DeviceUses* const uses = device.backend().uses()) [[unlikely]]
    uses->end(kind);
}

}  // namespace reprise::backend
