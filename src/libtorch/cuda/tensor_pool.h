// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "reprise/device.h"
#include "reprise/handles.h"
#include "reprise/memory.h"

namespace reprise::libtorch {

/// The pool of this library that a pool of libtorch's allocators is. Most have the same id in both; libtorch cannot
/// open a pool again whose memory outlived its graphs, and then another one has the place of its id. Thread-safe.
MempoolId pool_of_libtorch(MempoolId theirs);
/// True once there are such pools.
bool pools_were_replaced() noexcept;

/// A graph's hold on a pool of libtorch's allocators, of CUDA memory and of pinned memory: the pool stays as long as a
/// graph holds it, of this library or of libtorch. The release makes no call of CUDA: it is allowed on any thread,
/// during any capture.
class TensorPool {
 public:
  /// \param theirs its id in libtorch.
  TensorPool(const Device& device, MempoolId id, MempoolId theirs) : device_(device), id_(id), theirs_(theirs) {}
  ~TensorPool();
  TensorPool(const TensorPool&) = delete;
  TensorPool& operator=(const TensorPool&) = delete;

  const Device& device() const noexcept { return device_; }
  MempoolId id() const noexcept { return id_; }
  MempoolId id_in_libtorch() const noexcept { return theirs_; }

 private:
  friend class TensorRoute;

  Device device_;
  MempoolId id_, theirs_;
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
  /// \throws UsageError if a capture of libtorch's own is filling the pool.
  TensorRoute(const Device& device, MempoolId id, StreamHandle begun_on);
  ~TensorRoute();
  TensorRoute(const TensorRoute&) = delete;
  TensorRoute& operator=(const TensorRoute&) = delete;

  const std::shared_ptr<TensorPool>& pool() const noexcept { return pool_; }

 private:
  /// False if libtorch cannot open the pool again; one that is new has another error.
  bool begin(StreamHandle begun_on, bool is_new);
  bool begin_device_memory(StreamHandle begun_on, bool is_new);
  bool begin_pinned_memory(StreamHandle begun_on, bool is_new);
  void end() noexcept;

  std::shared_ptr<TensorPool> pool_;
  bool device_memory_ = false;
  bool pinned_memory_ = false;
};

}  // namespace reprise::libtorch
