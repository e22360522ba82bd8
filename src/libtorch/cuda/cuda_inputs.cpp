// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>

#include "libtorch/cuda/cuda_blocks.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/operators/tensor_inputs.h"

namespace reprise::libtorch {
namespace {

// Blocks that are free when the capture ends are known without a callback at each free.
bool watches_frees(const GraphOptions& options) noexcept {
  return options.check_input_liveness || options.inputs.retain;
}

/// The memory of CUDA tensors as a source of inputs, besides pinned memory. An address in it counts if the operator
/// that created the node was given the memory, or if no operator created the node.
class CudaInputs final : public TensorInputs {
 public:
  explicit CudaInputs(const captures::Capture& capture)
      : capture_(&capture),
        blocks_(watches_frees(capture.options()) ? CudaBlocks::get() : CudaBlocks::without_frees()),
        retain_(capture.options().inputs.retain) {
    if (retain_) kept_ = CudaBlocks::memory_besides(capture.pools());
  }

  void ended(GraphHandle template_graph) override {
    TensorInputs::ended(template_graph);
    pools_ = capture_->pools();
  }

  void find(std::span<memory::UsedAddress> addresses) override {
    blocks_.find(addresses, pools_, [&](const void* begin, std::size_t bytes) {
      return retain_ ? operators().storages_in(begin, bytes) : WeakStorages();
    });
    TensorInputs::find(addresses);
  }
  bool is_used(GraphNodeHandle node, const memory::BlockWatch& watch, std::uintptr_t address) override {
    return watch.owner != &blocks_ || operators().may_use(node, address);
  }
  bool is_certainly_used(GraphNodeHandle node, std::uintptr_t address) override {
    return operators().was_given(node, address);
  }

 protected:
  std::optional<OperatorInputs::Ranges> kept() override { return std::exchange(kept_, std::nullopt); }

 private:
  const captures::Capture* const capture_;  // until ended()
  CudaBlocks& blocks_;
  std::vector<MempoolId> pools_;
  const bool retain_;
  std::optional<OperatorInputs::Ranges>
      kept_;  // when the capture begins; of blocks, which may be split and joined later
};

}  // namespace

std::unique_ptr<inspect::InputSource> make_cuda_inputs(const captures::Capture& capture) {
  if (!begins_with_cuda_tensors(capture)) return nullptr;
  if (!watches_frees(capture.options()) && !CudaBlocks::are_known()) return nullptr;
  return std::make_unique<CudaInputs>(capture);
}

void note_cuda_allocations(const captures::Capture& capture) {
  if (begins_with_cuda_tensors(capture)) CudaBlocks::get();
}

}  // namespace reprise::libtorch
