// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "captures/capture.h"
#include "memory/allocator_impl.h"

namespace reprise::memory {

/// The pools that one graph holds, with one id: a pool a device. Its destructor releases them.
class OpenPools {
 public:
  explicit OpenPools(MempoolId id) : id_(id) {}
  ~OpenPools();
  OpenPools(const OpenPools&) = delete;
  OpenPools& operator=(const OpenPools&) = delete;

  /// Opens the pool of one more device. One call at a time, and none at the same time as the destructor.
  void open(CachingAllocator::Impl& allocator);

 private:
  MempoolId id_;
  std::vector<CachingAllocator::Impl*> allocators_;
};

/// The memory of a capture that is underway: what is allocated for its streams comes from its pool.
///
/// Attached to the capture before the runtime begins it, ended when it is over. On the device of the capture the pool
/// is there from the beginning. A stream of another device may join the capture; the first allocation for such a stream
/// opens the pool on that device.
///
/// Thread-safe. Lock order: its mutex is taken before an allocator's.
class CaptureRoute {
 public:
  /// \throws UsageError if another capture is filling the pool on this device.
  static std::shared_ptr<CaptureRoute> attach_to(captures::Capture& capture);
  ~CaptureRoute() { end(); }
  CaptureRoute(const CaptureRoute&) = delete;
  CaptureRoute& operator=(const CaptureRoute&) = delete;

  /// The capture fills no pool any more. Does nothing when called again.
  void end() noexcept;

  /// What the graph must hold as long as anything of it can touch the memory. Complete once the route has ended.
  std::shared_ptr<OpenPools> pools() const noexcept { return pools_; }

  /// If the capture has a route that has not ended, it fills the pool of this allocator, too; else nothing happens.
  /// \throws UsageError if another capture is filling the pool on this device.
  static void join(CachingAllocator::Impl& allocator, captures::Capture& capture);

 private:
  explicit CaptureRoute(captures::Capture& capture);
  void add(CachingAllocator::Impl& allocator);

  captures::Capture& capture_;  // until the route has ended
  const std::shared_ptr<OpenPools> pools_;
  std::mutex mutex_;  // guards the rest
  bool ended_ = false;
  std::vector<CachingAllocator::Impl*> allocators_;
};

}  // namespace reprise::memory
