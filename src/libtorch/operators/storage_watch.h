// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/StorageImpl.h>

#include <mutex>
#include <vector>

#include "memory/watches/block_watch.h"

namespace reprise::libtorch {

using WeakStorages = std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>;

/// A block with memory of tensors, kept alive by a storage.
struct StorageWatch : memory::BlockWatch {
  WeakStorages storages = {};                      ///< whose memory it is; guarded by the owner's mutex, as the next
  c10::intrusive_ptr<c10::StorageImpl> kept = {};  ///< the one that a graph keeps
};

/// Keeps blocks of tensors alive by their storages. A kept storage that gets other memory (`resize_`) frees its block
/// nevertheless.
///
/// No storage is released while the mutex is held: that calls allocators.
class StorageOwner : public memory::BlockOwner {
 public:
  bool retain(memory::BlockWatch& watch) override;
  void release(memory::BlockWatch& watch) noexcept override;
  bool frees_retained() const noexcept override { return true; }

 protected:
  ~StorageOwner() = default;
  /// A live storage with the memory of the block; null if there is none. With the mutex; `others` must be released
  /// without it.
  static c10::intrusive_ptr<c10::StorageImpl> living(const StorageWatch& watch,
                                                     std::vector<c10::intrusive_ptr<c10::StorageImpl>>& others);

  std::mutex mutex_;
};

}  // namespace reprise::libtorch
