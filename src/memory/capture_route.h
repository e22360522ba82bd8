// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/allocator_impl.h"

namespace reprise::memory {

/// The pools that one graph holds, with one id: a pool a device. Its destructor lets go of them.
class OpenPools {
 public:
  explicit OpenPools(MempoolId id) : id_(id) {}
  ~OpenPools();
  OpenPools(const OpenPools&) = delete;
  OpenPools& operator=(const OpenPools&) = delete;

  MempoolId id() const noexcept { return id_; }
  /// Opens the pool of one more device. One call at a time, and none at the same time as the destructor.
  void open(CachingAllocator::Impl& allocator);

 private:
  MempoolId id_;
  std::vector<CachingAllocator::Impl*> allocators_;
};

/// A capture that is underway: what is allocated for its streams comes from its pool.
///
/// Made before the runtime begins the capture, told the capture's ids when they are known, destroyed when it is over.
/// On the device of the capture the pool is there from the beginning. A stream of another device may join the capture;
/// the first allocation for such a stream opens the pool on that device.
///
/// Thread-safe. Lock order: the mutex of all routes is taken before an allocator's.
class CaptureRoute {
 public:
  /// \throws UsageError if another capture is filling the pool on this device.
  CaptureRoute(Device device, MempoolId id, StreamHandle stream);
  ~CaptureRoute();
  CaptureRoute(const CaptureRoute&) = delete;
  CaptureRoute& operator=(const CaptureRoute&) = delete;

  /// The capture has this id, too: the runtime began it, or it captures a conditional body.
  void add_capture_id(std::uint64_t capture_id);

  /// What the graph must hold as long as anything of it can touch the memory. Complete once the route is destroyed.
  std::shared_ptr<OpenPools> pools() const noexcept { return pools_; }

  /// Does this capture that is underway fill the pool with this id?
  static bool leads_to(MempoolId pool, DeviceType type, std::uint64_t capture_id);

  /// If the capture has a route, makes it one of this allocator, too; else does nothing.
  /// \throws UsageError if another capture is filling the pool on this device.
  static void join(CachingAllocator::Impl& allocator, std::uint64_t capture_id);

 private:
  void add(CachingAllocator::Impl& allocator, std::optional<StreamHandle> stream);

  DeviceType type_;  // ids of different runtimes may be the same
  std::shared_ptr<OpenPools> pools_;
  std::vector<std::uint64_t> capture_ids_;
  std::vector<CachingAllocator::Impl*> allocators_;
};

}  // namespace reprise::memory
