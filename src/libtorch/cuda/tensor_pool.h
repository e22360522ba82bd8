// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "reprise/device.h"
#include "reprise/handles.h"
#include "reprise/memory.h"

namespace reprise::libtorch {

/// A graph's hold on a pool of libtorch's allocators, of CUDA memory and of pinned memory: the pool stays as long as a
/// graph holds it, of this library or of libtorch. The release makes no call of CUDA: it is allowed on any thread,
/// during any capture.
class TensorPool {
 public:
  TensorPool(const Device& device, MempoolId id) : device_(device), id_(id) {}
  ~TensorPool();
  TensorPool(const TensorPool&) = delete;
  TensorPool& operator=(const TensorPool&) = delete;

  const Device& device() const noexcept { return device_; }
  MempoolId id() const noexcept { return id_; }

 private:
  friend class TensorRoute;

  Device device_;
  MempoolId id_;
  bool holds_device_memory_ = false;
  bool holds_pinned_memory_ = false;
};

/// Routes tensors made on a capture's streams, by any thread, to its pool. captures::find_own() shows whether a stream
/// is one of them, as in CachingAllocator.
///
/// Constructed before the runtime begins the capture, destroyed when it has ended. Only on the device of the capture:
/// libtorch has a pool for each device, and tensors on a joined stream of another device come from the ordinary one.
class TensorRoute {
 public:
  /// \throws UsageError if a capture of libtorch's own is filling the pool, or tensors live in it although all its
  ///         graphs are gone.
  TensorRoute(const Device& device, MempoolId id, StreamHandle begun_on);
  ~TensorRoute();
  TensorRoute(const TensorRoute&) = delete;
  TensorRoute& operator=(const TensorRoute&) = delete;

  const std::shared_ptr<TensorPool>& pool() const noexcept { return pool_; }

 private:
  void begin_device_memory(StreamHandle begun_on);
  void begin_pinned_memory(StreamHandle begun_on);
  void end() noexcept;

  std::shared_ptr<TensorPool> pool_;
  bool device_memory_ = false;
  bool pinned_memory_ = false;
};

}  // namespace reprise::libtorch
