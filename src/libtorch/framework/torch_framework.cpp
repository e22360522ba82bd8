// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <memory>
#include <vector>

#include "graph/capture/framework_captures.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/framework/torch_listeners.h"
#include "libtorch/graphed/capture_guards.h"
#include "libtorch/operators/forward_scopes.h"
#include "libtorch/operators/host_counters.h"
#include "libtorch/operators/leaf_streams.h"
#include "libtorch/operators/operator_nodes.h"
#include "libtorch/operators/tensor_inputs.h"
#include "reprise/libtorch/detail/install.h"

// libtorch as the framework of this process: what both libraries share, and what takes part in captures.

namespace reprise::libtorch {
namespace {

class TorchFramework final : public backend::Framework, public graphs::FrameworkCaptures {
 public:
  std::string_view name() const noexcept override { return "libtorch"; }

  // The current streams of host devices are this library's: host/host_streams.cpp shows them to libtorch.
  [[gnu::hot]] bool keeps_current(DeviceType type) const noexcept override {
    return type == DeviceType::cuda && has_cuda_tensors();
  }
  [[gnu::hot]] StreamHandle current_stream(int device) const noexcept override { return current_cuda_stream(device); }
  void set_current_stream(int device, StreamHandle stream) const noexcept override {
    set_current_cuda_stream(device, stream);
  }
  int current_device() const noexcept override { return current_cuda_device(); }
  void set_current_device(int device) const noexcept override { set_current_cuda_device(device); }
  bool owns_forever(const StreamRef& stream) const noexcept override {
    return stream.device().type() == DeviceType::cuda && is_pooled_cuda_stream(stream.native());
  }
  // Streams are stored by allocators (those of tensors on them, and by record_stream()) and by the nodes of autograd.
  // All are kept: a handle that a user passes to libtorch cannot be noticed.
  bool keeps_streams(DeviceType type) const noexcept override {
    return type == DeviceType::host || (type == DeviceType::cuda && has_cuda_tensors());
  }

  std::optional<MempoolId> new_pool_id(bool by_user) const override { return new_cuda_pool_id(by_user); }
  void empty_cache(const Device& device) const noexcept override {
    if (device.type() == DeviceType::cuda) empty_cuda_cache();
  }
  void empty_pinned_cache(const Device& device) const noexcept override {
    if (device.type() == DeviceType::cuda) empty_cuda_pinned_cache();
  }
  PoolBytes pool_bytes(const Device& device, MempoolId pool) const noexcept override {
    return device.type() == DeviceType::cuda ? cuda_pool_bytes(device, pool) : PoolBytes{};
  }
  std::vector<Block> blocks(const Device& device) const override {
    return device.type() == DeviceType::cuda ? cuda_blocks(device) : std::vector<Block>();
  }
  void allocation_stacks_wanted() const override { keep_cuda_stacks(); }

  const graphs::FrameworkCaptures* captures() const noexcept override { return this; }
  std::unique_ptr<graphs::FrameworkListeners> make_listeners() const override {
    return std::make_unique<TorchListeners>();
  }
  std::unique_ptr<inspect::InputSource> make_input_source(const captures::Capture& capture) const override {
    if (capture.device().type() == DeviceType::cuda) return make_cuda_inputs(capture);
    return std::make_unique<TensorInputs>();
  }
  std::shared_ptr<inspect::OperatorSource> make_operator_source(const captures::Capture& capture) const override {
    if (capture.device().type() == DeviceType::cuda) note_cuda_allocations(capture);
    return std::make_shared<OperatorNodes>();
  }
  // The generator of a host device is the default generator of this library.
  std::shared_ptr<void> save_generators(const Device& device) const override {
    if (!keeps_current(device.type())) return nullptr;
    const c10::Device theirs(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index()));
    return std::make_shared<Restored>(theirs, std::vector<at::Tensor>());
  }
  std::shared_ptr<void> watch_warm_up(const StreamRef& stream) const override { return renew_leaves_after(stream); }
  void annotation_changed(const captures::Capture& capture, const Annotation& now) const noexcept override {
    ForwardScopes::annotation_changed(capture, now);
  }
  void add_to_exception() const noexcept override try {
    try {
      throw;
    } catch (c10::Error& error) {
      add_failed_operators(error);
    }
  } catch (...) {  // of another kind, or there is no memory for more
  }
};

// Made by the compiler, so that it is there for static objects of any source.
constinit const TorchFramework framework{};

}  // namespace

bool detail::install() {
  register_host_counters();
  backend::install_framework(framework);
  return true;
}

}  // namespace reprise::libtorch
