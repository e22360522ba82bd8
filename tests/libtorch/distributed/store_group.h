// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>
#include <vector>

namespace reprise::libtorch::test {

/// A process group for tensors of host devices, for tests: its collectives are work of the current stream, eagerly and
/// in captures, which exchanges bytes by a store. Sums are made in the order of the ranks, so that all have the same.
///
/// The processes must begin their collectives in the same order, as for NCCL.
class StoreGroup final : public c10d::Backend {
 public:
  /// \param name of this group in the store; each needs another one.
  StoreGroup(c10::intrusive_ptr<c10d::Store> store, const std::string& name, int rank, int size);

  // NOLINTNEXTLINE(readability-const-return-type): as the base has it
  const std::string getBackendName() const override { return "store"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  /// Waits for all processes, when this one waits for no collective any more. The last one to return is rank 0, which
  /// may run the store: the others need it no longer then.
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;
  /// Collectives that wait for other processes end at once, and leave undefined values.
  void abort() override;

  /// How many collectives this process has executed.
  int executed() const noexcept;

 private:
  class Exchange;
  std::shared_ptr<Exchange> exchange_;  // graphs share it
};

}  // namespace reprise::libtorch::test
