// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/framework.h"
#include "libtorch/cuda/versions/version.h"
#include "libtorch/operators/operator_inputs.h"
#include "libtorch/operators/storage_watch.h"
#include "memory/watches/block_watch.h"
#include "reprise/memory.h"
#include "support/immortal.h"

namespace reprise::libtorch {

/// The blocks of c10's caching allocator that graphs watch.
///
/// Blocks in use come from a snapshot of the allocator; frees from its callback, which marks watched blocks dead. The
/// callback reads only two counters while no block is watched and no capture looks for its inputs.
///
/// The allocator cannot keep a block that its owner frees: a graph keeps storages of tensors instead.
///
/// Threads: any. Lock order: c10's allocator, this one's mutex, FreeLog's. c10's allocator is not called, and no
/// storage released, while the mutex is held.
class CudaBlocks final : public StorageOwner {
 public:
  /// False if libtorch uses another allocator, which does not list them.
  static bool are_known();
  /// The memory that it has now outside of these pools.
  static OperatorInputs::Ranges memory_besides(std::span<const MempoolId> own);
  /// Registers for the frees of c10's allocator at the first call.
  /// \throws UsageError if libtorch uses another allocator, which does not report them.
  static CudaBlocks& get();
  /// The same, to look addresses up only: does not register.
  static CudaBlocks& without_frees();

  /// Looks the addresses, sorted, up in this allocator. `storages_in` returns the storages that may be kept for a
  /// block.
  void find(std::span<memory::UsedAddress> addresses, std::span<const MempoolId> own,
            const std::function<WeakStorages(const void* begin, std::size_t bytes)>& storages_in);

  bool is_given_out_again(const memory::BlockWatch& watch) override;

 private:
  friend class support::Immortal<CudaBlocks>;

  CudaBlocks() = default;
  void attach();
  void on_trace(const version::TraceEntry& entry);
  void block_made(std::uintptr_t address);
  void block_freed(const version::TraceEntry& entry);
  std::vector<std::string> stack_of(std::uintptr_t address) const;
  std::shared_ptr<memory::BlockWatch> freed_watch(const backend::Framework::Block& block);
  std::shared_ptr<memory::BlockWatch> watch(const backend::Framework::Block& block, const WeakStorages& storages);

  // Guarded by the mutex.
  std::unordered_map<std::uintptr_t, std::weak_ptr<StorageWatch>> watched_;
  std::unordered_map<std::uintptr_t, std::vector<std::string>> stacks_;  // of allocations, while these are recorded
  int looking_ = 0;                                                      // how many find() are underway
  std::unordered_set<std::uintptr_t> freed_now_;                         // meanwhile
  std::atomic<std::size_t> interesting_{0};                              // watched_.size() + stacks_.size() + looking_
  std::once_flag attached_;
};

}  // namespace reprise::libtorch
