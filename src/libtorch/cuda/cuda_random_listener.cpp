// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_random_listener.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <algorithm>
#include <utility>

#include "graph/cuda_graph_impl.h"
#include "libtorch/cuda/cuda_listeners.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/torch_listeners.h"
#include "text/format.h"

namespace reprise::libtorch {

void CudaRandomListener::register_generator(const at::Generator& generator) {
  if (std::ranges::find(registered_, generator) == registered_.end()) registered_.push_back(generator);
}

void CudaRandomListener::begin(const graphs::CaptureContext& context) {
  if (!begins_with_cuda_tensors(context)) return;
  try {
    lend_to_registered(context);
    lend_to_default(context);
  } catch (...) {
    abandon();
    throw;
  }
}

void CudaRandomListener::lend_to_registered(const graphs::CaptureContext& context) {
  for (const at::Generator& generator : registered_) {
    const auto source = std::make_shared<CudaGenerator>(generator);
    if (source->device() != context.device)
      throw UsageError(
          text::format("expected registered generators to be of {}, where the capture begins, found one of {}: "
                       "what draws from it belongs into a graph of that device.",
                       context.device.str(), source->device().str()));
    if (!attach(source))
      throw UsageError(
          text::format("A registered generator of {} takes part in another capture that is underway, and libtorch's "
                       "generators hold the state of one: begin this capture when that one has ended, or use another "
                       "generator.",
                       context.device.str()));
  }
}

void CudaRandomListener::lend_to_default(const graphs::CaptureContext& context) {
  const auto index = static_cast<c10::DeviceIndex>(context.device.index());
  const auto source = std::make_shared<CudaGenerator>(at::cuda::detail::getDefaultCUDAGenerator(index));
  if (!attach(source)) conflicts_.emplace(*source);  // which matters only if this capture draws
}

// True also if it is attached to this capture already.
bool CudaRandomListener::attach(const std::shared_ptr<CudaGenerator>& generator) {
  if (std::ranges::any_of(lent_, [&](const Lent& one) { return one.generator->has_state_of(*generator); })) return true;
  random::Words words = random::allocate_lent_words(generator->device());
  lent_.reserve(lent_.size() + 1);
  if (!generator->attach(words.get())) return false;
  lent_.push_back({generator, std::move(words)});
  return true;
}

void CudaRandomListener::ended(const graphs::CaptureContext& /*context*/, GraphHandle template_graph) {
  if (conflicts_) conflicts_->refuse_in(template_graph);
  conflicts_.reset();
  auto draws = std::make_unique<random::CaptureDraws>();
  for (Lent& lent : lent_) {
    const std::optional<std::uint64_t> drawn = lent.generator->detach();
    if (!drawn) refuse_draws(lent, template_graph);
    if (drawn.value_or(0) != 0) draws->add_drawn(lent.generator, std::move(lent.words), *drawn, template_graph);
  }
  lent_.clear();
  if (draws->empty()) return;
  draws->finish();
  draws_ = std::move(draws);
}

void CudaRandomListener::refuse_draws(const Lent& lent, GraphHandle template_graph) const {
  const Device device = lent.generator->device();
  if (!is_used(device, template_graph, {reinterpret_cast<std::uintptr_t>(lent.words.get())})) return;
  throw UsageError(
      text::format("A capture of at::cuda::CUDAGraph with the same generator of {} was underway at the same time, so "
                   "the numbers drawn for each graph cannot be counted. Make one capture after the other, or "
                   "register a separate generator for each (register_generator_state).",
                   device.str()));
}

void CudaRandomListener::abandon() noexcept {
  for (const Lent& lent : lent_) lent.generator->abandon();
  lent_.clear();
  conflicts_.reset();
}

void set_cuda_offset(at::Generator& generator, std::uint64_t offset) {
  at::check_generator<at::CUDAGeneratorImpl>(generator)->set_philox_offset_per_thread(offset);
}

void register_cuda_generator(CUDAGraph& graph, const at::Generator& generator) {
  constexpr const char* call = "register_generator_state";
  auto& impl = graphs::GraphAccess::of(graph, call);
  impl.join_framework();
  impl.require(call, {graphs::GraphState::empty});
  // libtorch is the framework of each process that has this code.
  const auto& of_torch = static_cast<const TorchListeners&>(*impl.listeners.framework);
  static_cast<CudaListeners&>(*of_torch.cuda).random.register_generator(generator);
}

}  // namespace reprise::libtorch
