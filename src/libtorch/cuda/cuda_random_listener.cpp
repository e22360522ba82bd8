// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_random_listener.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "captures/registry.h"
#include "graph/capture/framework_captures.h"
#include "graph/cuda_graph_impl.h"
#include "inspect/liveness/graph_scan.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/cuda/versions/version.h"
#include "reprise/libtorch/detail/install.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

// True if a kernel of the graph has one of these addresses among its parameters.
bool is_used(const Device& device, GraphHandle template_graph, const random::LentWords::Addresses& words) {
  const inspect::GraphScan scan = inspect::scan_graph(device.backend(), template_graph);
  return std::ranges::any_of(scan.words, [&](const auto& word) { return words.contains(word.value); });
}

// The states of generators, which are restored at its end.
struct SavedStates {
  struct State {
    at::Generator generator;
    std::uint64_t seed, offset;
  };
  ~SavedStates() {
    for (State& each : states) try {
        const std::lock_guard lock(each.generator.mutex());
        each.generator.set_current_seed(each.seed);
        each.generator.set_offset(each.offset);
      } catch (const std::exception& error) {
        warn(error.what());
      }
  }
  std::vector<State> states;
};

}  // namespace

std::shared_ptr<void> CudaRandomListener::save_generators() const {
  if (registered_.empty()) return nullptr;
  auto saved = std::make_shared<SavedStates>();
  for (at::Generator each : registered_) {
    const std::lock_guard lock(each.mutex());
    saved->states.push_back({each, each.current_seed(), each.get_offset()});
  }
  return saved;
}

void CudaRandomListener::register_generator(const at::Generator& generator) {
  if (std::ranges::find(registered_, generator) == registered_.end()) registered_.push_back(generator);
}

void CudaRandomListener::begin(captures::Capture& capture) {
  if (!begins_with_cuda_tensors(capture)) return;
  // libtorch refuses it here, and the runtime right after, for which the capture has a text.
  if (capture.stream().capture_status() != CaptureStatus::none) return;
  try {
    words_ = random::LentWords::open(capture);
    attach_registered(capture);
    attach_default(capture);
  } catch (...) {
    abandon();
    throw;
  }
}

void CudaRandomListener::attach_registered(const captures::Capture& capture) {
  for (const at::Generator& generator : registered_) {
    const auto source = std::make_shared<CudaGenerator>(generator);
    if (source->device() != capture.device())
      throw UsageError(
          text::format("expected registered generators to be of {}, where the capture begins, found one of {}: "
                       "what draws from it belongs in a graph of that device.",
                       capture.device().str(), source->device().str()));
    if (!attach(source))
      throw UsageError(
          text::format("A registered generator of {} takes part in another capture underway, and libtorch's "
                       "generators hold the state of one: begin this capture when that one has ended, or use another "
                       "generator.",
                       capture.device().str()));
  }
}

void CudaRandomListener::attach_default(const captures::Capture& capture) {
  const auto index = static_cast<c10::DeviceIndex>(capture.device().index());
  const auto source = std::make_shared<CudaGenerator>(at::cuda::detail::getDefaultCUDAGenerator(index));
  default_is_taken_ = !attach(source);  // which matters only if this capture draws
  if (default_is_taken_) words_->add_foreign(source->words_in_use());
}

// True also if it is attached to this capture already.
bool CudaRandomListener::attach(const std::shared_ptr<CudaGenerator>& generator) {
  if (std::ranges::any_of(attached_,
                          [&](const Attached& one) { return one.generator->identity() == generator->identity(); }))
    return true;
  memory::DeviceWords words = memory::allocate_hidden_words(sizeof(random::GraphRngState), generator->device());
  attached_.reserve(attached_.size() + 1);
  words_->lend(words.get());
  if (!generator->attach(words.get())) return false;
  std::uint64_t* const lent = words.get();
  attached_.push_back({generator, std::move(words)});
  words_->serves(generator, lent);
  return true;
}

void CudaRandomListener::started(captures::Capture& capture) {
  if (!version::draws_by_capture_id || attached_.empty()) return;
  const std::uint64_t id = captures::find(capture.stream()).info.id;
  for (const Attached& each : attached_) each.generator->takes_part(id);
}

void CudaRandomListener::body_began(captures::Capture& /*capture*/, const captures::Body& body) {
  for (const Attached& each : attached_) each.generator->takes_part(body.id);
}

void CudaRandomListener::ended(captures::Capture& capture, graphs::CapturedGraph& graph) {
  if (words_ == nullptr) return;
  if (default_is_taken_) refuse_draws_of_others(capture.device(), graph.template_graph);
  auto draws = std::make_shared<random::CaptureDraws>();
  for (Attached& each : attached_) {
    const std::optional<std::uint64_t> drawn = each.generator->detach();
    if (!drawn) refuse_draws(each, graph.template_graph);
    if (drawn.value_or(0) == 0) continue;
    refuse_draws_in_loops(capture, each, graph.template_graph);
    draws->add_drawn(each.generator, std::move(each.words), *drawn, graph.template_graph);
  }
  attached_.clear();
  words_.reset();
  keep(std::move(draws), graph);
}

// If another capture holds the generator, libtorch draws from that capture's words.
void CudaRandomListener::refuse_draws_of_others(const Device& device, GraphHandle template_graph) const {
  if (!is_used(device, template_graph, words_->of_others())) return;
  throw UsageError(
      text::format("Two captures underway at once drew random numbers from libtorch's default generator of "
                   "{}, whose state can serve one of them: capture both again, one after the other, or let each draw "
                   "from a generator of its own (register_generator_state).",
                   device.str()));
}

void CudaRandomListener::refuse_draws(const Attached& attached, GraphHandle template_graph) const {
  const Device device = attached.generator->device();
  if (!is_used(device, template_graph, {reinterpret_cast<std::uintptr_t>(attached.words.get())})) return;
  throw UsageError(
      text::format("A capture of at::cuda::CUDAGraph with the same generator of {} was underway at the same time, so "
                   "the numbers drawn for each graph cannot be counted. Make one capture after the other, or "
                   "register a separate generator for each (register_generator_state).",
                   device.str()));
}

void CudaRandomListener::refuse_draws_in_loops(const captures::Capture& capture, const Attached& attached,
                                               GraphHandle template_graph) const {
  if (!capture.has_loops()) return;
  const inspect::GraphScan scan = inspect::scan_graph(capture.device().backend(), template_graph);
  const auto words = reinterpret_cast<std::uintptr_t>(attached.words.get());
  for (const inspect::ScannedWord& word : scan.words)
    if (word.value == words && capture.repeats(scan.nodes[word.node].top) &&
        !random::derives_words(capture.device().backend(), scan.nodes[word.node].function))
      throw UsageError(text::format(
          "{} draws random numbers of libtorch's generator of {} in the body of a while_, or around one: "
          "each iteration would draw the same numbers. Draw before the loop, or from a generator of this "
          "library (Generator::philox_state).",
          inspect::node_text(capture.device().backend(), scan.nodes[word.node], nullptr), capture.device().str()));
}

void CudaRandomListener::abandon() noexcept {
  for (const Attached& each : attached_) each.generator->abandon();
  attached_.clear();
  words_.reset();
}

void set_cuda_offset(at::Generator& generator, std::uint64_t offset) {
  at::check_generator<at::CUDAGeneratorImpl>(generator)->set_philox_offset_per_thread(offset);
}

void register_cuda_generator(CUDAGraph& graph, const at::Generator& generator) {
  constexpr const char* call = "register_generator_state";
  auto& impl = graphs::GraphAccess::of(graph, call);
  detail::install();  // for a caller whose static objects are initialised before those of the header
  impl.join_framework();
  impl.require(call, {graphs::GraphState::empty});
  // An empty graph has joined libtorch, unless a hook of it is running, and nothing else can be installed.
  if (impl.listeners.framework() == nullptr) impl.refuse_in_own_hook(call);
  for (graphs::CaptureListener* const each : impl.listeners.framework()->in_order())
    if (auto* const random = dynamic_cast<CudaRandomListener*>(each)) random->register_generator(generator);
}

}  // namespace reprise::libtorch
