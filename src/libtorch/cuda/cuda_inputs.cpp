// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_inputs.h"

#include <ATen/Context.h>

#include <memory>

#include "libtorch/cuda/cuda_blocks.h"
#include "libtorch/operators/tensor_inputs.h"
#include "memory/watches/allocation_stacks.h"

namespace reprise::libtorch {
namespace {

/// The memory of CUDA tensors as a source of inputs, besides pinned memory. An address in it counts if an operator of
/// the capture was given that memory, or if the node was made by no operator.
class CudaInputs final : public TensorInputs {
 public:
  explicit CudaInputs(const graphs::CaptureContext& context)
      : TensorInputs(context),
        blocks_(CudaBlocks::get()),
        pool_(context.pool),
        retain_(context.options.retain_inputs) {}

  void find(std::span<memory::UsedAddress> addresses) override {
    blocks_.find(addresses, pool_, [&](const void* begin, std::size_t bytes) {
      return retain_ ? operators().storages_in(begin, bytes) : WeakStorages();
    });
    TensorInputs::find(addresses);
  }
  bool is_used(GraphNodeHandle node, const memory::BlockWatch& watch, std::uintptr_t address) override {
    return watch.owner != &blocks_ || operators().has(address) || !operators().made_by_operator(node);
  }

 private:
  CudaBlocks& blocks_;
  const MempoolId pool_;
  const bool retain_;
};

}  // namespace

void let_cuda_inputs_take_part() {
  if (memory::allocation_stacks_are_recorded()) {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    CudaBlocks::get();  // who allocates what from now on is to be known
  }
  inspect::add_input_source([](const graphs::CaptureContext& context) -> std::unique_ptr<inspect::InputSource> {
    if (context.device.type() != DeviceType::cuda) return nullptr;
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // before anything captures
    return std::make_unique<CudaInputs>(context);
  });
}

}  // namespace reprise::libtorch
