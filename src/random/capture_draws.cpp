// SPDX-License-Identifier: Apache-2.0
#include "random/capture_draws.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_set>

#include "backend/check.h"
#include "backend/own_kernels.h"
#include "backend/own_records.h"
#include "memory/device_words.h"
#include "random/lent_words.h"
#include "text/format.h"

namespace reprise::random {

using backend::Backend;
using backend::Checked;

namespace {

struct AdvanceWords {
  REPRISE_KERNEL void operator()(Thread, std::uint64_t* words, Advance by) const {
    advance(reinterpret_cast<GraphRngState*>(words), by);
  }
  static auto accesses(std::uint64_t* words, Advance) { return std::array{reads(words, 4), writes(words, 4)}; }
};

struct DeriveWords {
  REPRISE_KERNEL void operator()(Thread, std::uint64_t* words, const std::uint64_t* parent, std::uint64_t drawn,
                                 const std::uint32_t* iteration, std::uint64_t each) const {
    derive(reinterpret_cast<GraphRngState*>(words), reinterpret_cast<const GraphRngState*>(parent), drawn, iteration,
           each);
  }
  static std::vector<MemoryAccess> accesses(std::uint64_t* words, const std::uint64_t* parent, std::uint64_t,
                                            const std::uint32_t* iteration, std::uint64_t) {
    std::vector<MemoryAccess> declared{writes(words, 2), reads(parent, 2)};
    if (iteration != nullptr) declared.push_back(reads(iteration, 1));
    return declared;
  }
};

const KernelRecord& derive_record() {
  return backend::make_own_record<DeriveWords>("reprise_derive_random");
}

// Garbage that lies in new memory is no epoch: they begin far from zero, and none is given twice.
std::uint64_t next_epoch() {
  static std::atomic<std::uint64_t> last{0x7265707269736500};
  return ++last;
}

// The parameters of a kernel of this library; they point into this object.
template <class... Arguments>
class OwnParams {
 public:
  OwnParams(Backend& backend, const KernelRecord& kernel, Arguments... arguments) : arguments_(arguments...) {
    std::apply([&](auto&... each) { pointers_ = {&each...}; }, arguments_);
    Checked(backend).kernel_function(kernel, &params_.function);
    params_.params = pointers_.data();
  }
  OwnParams(const OwnParams&) = delete;
  OwnParams& operator=(const OwnParams&) = delete;
  const backend::KernelNodeParams& params() const { return params_; }

 private:
  std::tuple<Arguments...> arguments_;
  std::array<void*, sizeof...(Arguments)> pointers_;
  backend::KernelNodeParams params_;
};

// The parameters of a head node.
auto head_params(Backend& backend, const GraphDraws& draws) {
  return OwnParams<std::uint64_t*, Advance>(backend, advance_record(), draws.words, draws.parameters);
}

// The parameters of a head node that derives its numbers from others.
auto derive_params(Backend& backend, std::uint64_t* words, const PhiloxState& parent,
                   const std::uint32_t* iteration = nullptr, std::uint64_t each = 0) {
  return OwnParams<std::uint64_t*, const std::uint64_t*, std::uint64_t, const std::uint32_t*, std::uint64_t>(
      backend, derive_record(), words, parent.words, parent.base_offset, iteration, each);
}

// The head node of these words in a copy of their graph.
GraphNodeHandle head_in(Backend& backend, GraphHandle copy, const std::uint64_t* words) {
  const Checked runtime(backend);
  for (GraphNodeHandle const node : runtime.nodes_of(copy)) {
    if (runtime.type_of(node) != backend::NodeType::kernel) continue;
    backend::NodeParams params;
    runtime.graph_node_params(node, &params);
    const auto& kernel = std::get<backend::KernelNodeParams>(params);
    if (backend::own_record(backend, kernel.function) == &advance_record() &&
        *static_cast<std::uint64_t* const*>(kernel.params[0]) == words)
      return node;
  }
  throw UsageError(
      "A graph that draws random numbers cannot become a child: the node that sets their offset was removed from the "
      "template (CUDAGraph::raw_cuda_graph). Capture it again.");
}

constinit captures::Slot<CaptureDraws> draws_of_capture;

bool same_state(const DrawSource& a, const DrawSource& b) {
  return &a == &b || a.identity() == b.identity();
}

// The graph of the capture.
GraphHandle outermost_graph(GraphHandle graph, const captures::Body* body) {
  for (; body != nullptr; body = body->outer.get()) graph = body->outer_graph;
  return graph;
}

void require_kernel(const Device& device) {
  if (device.type() == DeviceType::host) return;
  if (const std::string& why = backend::own_kernels_unavailable(); !why.empty())
    throw UsageError(
        text::format("Random numbers in a capture on a CUDA device need a kernel of this library; {}.", why));
}

}  // namespace

const KernelRecord& advance_record() {
  return backend::make_own_record<AdvanceWords>("reprise_advance_random");
}

bool derives_words(const Backend& backend, FunctionHandle function) {
  return backend::own_record(backend, function) == &derive_record();
}

std::uint64_t CaptureDraws::Level::draw(std::uint64_t numbers) const {
  return external != nullptr ? external->draw(numbers) : std::exchange(*increment, *increment + numbers);
}

void CaptureDraws::hold(captures::Capture& capture, const std::shared_ptr<DrawSource>& generator) {
  const auto draws = capture.get_or_attach(draws_of_capture);
  const std::lock_guard lock(draws->mutex_);
  draws->held_.push_back(generator);
  generator->begin_capture();
}

std::shared_ptr<CaptureDraws> CaptureDraws::end(captures::Capture& capture) noexcept {
  std::shared_ptr<CaptureDraws> draws = capture.detach(draws_of_capture);
  if (draws != nullptr) draws->close();
  return draws;
}

void CaptureDraws::close() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& generator : held_) generator->end_capture();
  held_.clear();
}

void CaptureDraws::stream_ends(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& draws : draws_) std::erase(draws->dependent, stream.native());
  for (const auto& draws : loops_) std::erase(draws->dependent, stream.native());
}

// Unlocks for the allocation: where memory is short, that releases what waits for launches. It may destroy streams, of
// which stream_ends() is notified, and runs destructors of users.
memory::DeviceWords CaptureDraws::allocate_unlocked(Lock& lock, const StreamRef& stream) {
  require_kernel(stream.device());
  lock.unlock();
  memory::DeviceWords words = memory::allocate_words(sizeof(GraphRngState), stream);
  lock.lock();
  require_open();
  return words;
}

void CaptureDraws::require_open() const {
  if (closed_)
    throw UsageError(
        "Generator::philox_state: the capture ended while another thread drew random numbers in it; end it after the "
        "call.");
}

// `body`: what the stream captures; null: the graph of the capture.
CaptureDraws::Level CaptureDraws::level_of(Lock& lock, const captures::Capture& capture,
                                           const std::shared_ptr<DrawSource>& generator, const StreamRef& stream,
                                           GraphHandle graph, const captures::Body* body) {
  if (const captures::Body* const loop = captures::repeating(body)) return loop_level(lock, generator, stream, *loop);
  const auto find = [&] {
    return std::ranges::find_if(draws_, [&](const auto& draws) { return same_state(*draws->generator, *generator); });
  };
  auto known = find();
  if (known == draws_.end()) {
    if (const auto lent = LentWords::of(capture))
      if (auto [external, words] = lent->serving(*generator); external != nullptr)
        return {nullptr, words, nullptr, nullptr, nullptr, std::move(external)};
    memory::DeviceWords words = allocate_unlocked(lock, stream);
    known = find();  // by another thread meanwhile
    if (known == draws_.end()) {
      held_.reserve(held_.size() + 1);
      add(generator, std::move(words), 0, outermost_graph(graph, body));
      held_.push_back(generator);
      generator->begin_capture();
      known = std::prev(draws_.end());
    }
  }
  GraphDraws& draws = **known;
  return {nullptr, draws.words, &draws.parameters.increment, draws.head, &draws.dependent, nullptr};
}

CaptureDraws::Level CaptureDraws::loop_level(Lock& lock, const std::shared_ptr<DrawSource>& generator,
                                             const StreamRef& stream, const captures::Body& body) {
  if (body.max_iterations == 0)
    throw UsageError(
        "Generator::philox_state: the body of a while_ without a limit draws an unknown number of random numbers; "
        "expected LoopOptions::max_iterations, the most iterations of the loop.");
  const auto find = [&] {
    return std::ranges::find_if(
        loops_, [&](const auto& draws) { return draws->body == &body && same_state(*draws->generator, *generator); });
  };
  auto known = find();
  if (known == loops_.end()) {
    memory::DeviceWords words = allocate_unlocked(lock, stream);
    known = find();  // by another thread meanwhile
    if (known == loops_.end()) {
      add_loop(generator, std::move(words), stream, body);
      known = std::prev(loops_.end());
    }
  }
  LoopDraws& draws = **known;
  return {&body, draws.words, &draws.increment, draws.head, &draws.dependent, nullptr};
}

void CaptureDraws::add_loop(const std::shared_ptr<DrawSource>& generator, memory::DeviceWords words,
                            const StreamRef& stream, const captures::Body& body) {
  auto made = std::make_unique<LoopDraws>(LoopDraws{generator, &body, words.get()});
  Backend& backend = stream.device().backend();
  const auto unknown = derive_params(backend, made->words, {0, 0, made->words});  // until the body ends
  backend::NodeParams params = unknown.params();
  loops_.reserve(loops_.size() + 1);
  words_->push_back(std::move(words));
  Checked(backend).graph_add_node(&made->head, body.graph, {}, params);
  loops_.push_back(std::move(made));
}

// Later work of the stream, which captures `body`, comes after the head node.
void CaptureDraws::begin_after(const Level& level, const StreamRef& stream, const captures::Body* body) {
  if (body != level.body) return connect(level, stream.device(), nullptr, nullptr, body);
  if (std::ranges::find(*level.dependent, stream.native()) != level.dependent->end()) return;
  level.dependent->reserve(level.dependent->size() + 1);
  Checked(stream.device().backend())
      .stream_update_capture_dependencies(stream.native(), {&level.head, 1}, backend::UpdateDependencies::add);
  level.dependent->push_back(stream.native());
}

// A node in this graph comes after the head node: the one that it lies in, if its graph is not that of the head node.
void CaptureDraws::connect(const Level& level, const Device& device, GraphNodeHandle node, GraphHandle graph,
                           const captures::Body* body) {
  if (level.head == nullptr) return;
  for (; body != level.body; body = body->outer.get()) {
    node = body->node;
    graph = body->outer_graph;
  }
  edges_.add(device, graph, level.head, node);
}

GraphDraws& CaptureDraws::add(const std::shared_ptr<DrawSource>& generator, memory::DeviceWords words,
                              std::uint64_t increment, GraphHandle graph) {
  auto made = std::make_unique<GraphDraws>();
  made->generator = generator;
  made->words = words.get();
  made->parameters.epoch = next_epoch();
  made->parameters.increment = increment;
  Backend& backend = generator->device().backend();
  const auto head = head_params(backend, *made);
  backend::NodeParams params = head.params();
  draws_.reserve(draws_.size() + 1);
  words_->reserve(words_->size() + 1);
  Checked(backend).graph_add_node(&made->head, graph, {}, params);
  draws_.push_back(std::move(made));
  words_->push_back(std::move(words));
  return *draws_.back();
}

void CaptureDraws::add_drawn(const std::shared_ptr<DrawSource>& generator, memory::DeviceWords words,
                             std::uint64_t increment, GraphHandle graph) {
  require_kernel(generator->device());
  const Checked runtime(generator->device().backend());
  const std::vector<GraphNodeHandle> nodes = runtime.nodes_of(graph);
  std::unordered_set<GraphNodeHandle> later;
  for (const backend::Edge& edge : runtime.edges_of(graph)) later.insert(edge.to);
  std::vector<backend::Edge> after_head;
  GraphDraws& draws = add(generator, std::move(words), increment, graph);
  for (GraphNodeHandle const node : nodes)
    if (!later.contains(node)) after_head.push_back({draws.head, node});
  runtime.graph_add_dependencies(graph, after_head);
}

PhiloxState CaptureDraws::draw(const std::shared_ptr<DrawSource>& generator, std::uint64_t increment,
                               const StreamRef& stream, const captures::Found& found) {
  Lock lock(mutex_);
  require_open();
  const Level level = level_of(lock, *found.capture, generator, stream, found.info.graph, found.body.get());
  begin_after(level, stream, found.body.get());
  return {0, level.draw(increment), level.words};
}

PhiloxState CaptureDraws::draw_for_child(const GraphDraws& of_child, const captures::ChildNode& child) {
  Lock lock(mutex_);
  require_open();
  const captures::Body* const body = child.body.get();
  const Level level = level_of(lock, child.capture, of_child.generator, child.stream, child.graph, body);
  if (body != level.body || std::ranges::find(child.dependencies, level.head) == child.dependencies.end())
    connect(level, child.stream.device(), child.node, child.graph, body);
  return {0, level.draw(of_child.parameters.increment), level.words};
}

void CaptureDraws::end_body(captures::Capture& capture, const captures::Body& body) {
  const auto draws = body.repeats ? capture.get(draws_of_capture) : nullptr;
  if (draws == nullptr) return;
  Lock lock(draws->mutex_);
  std::vector<std::unique_ptr<LoopDraws>>& loops = draws->loops_;  // end_loop() may add those of the loop around it
  for (;;) {
    const auto found = std::ranges::find(loops, &body, &LoopDraws::body);
    if (found == loops.end()) return;
    const std::unique_ptr<LoopDraws> ended = std::move(*found);
    loops.erase(found);
    draws->end_loop(lock, capture, *ended);
  }
}

void CaptureDraws::end_loop(Lock& lock, const captures::Capture& capture, const LoopDraws& draws) {
  const captures::Body& body = *draws.body;
  const Level around = level_of(lock, capture, draws.generator, body.stream, body.outer_graph, body.outer.get());
  connect(around, body.stream.device(), body.node, body.outer_graph, body.outer.get());
  const std::uint64_t before = around.draw(0);
  // Half of what an offset can count: later draws add to it.
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max() / 2;
  if (draws.increment != 0 && (before > most || body.max_iterations > (most - before) / draws.increment))
    throw UsageError(text::format(
        "while_: its body draws {} random numbers in each of at most {} iterations, more in all than the offset of a "
        "generator can count; set LoopOptions::max_iterations to what the loop needs. The whole capture fails in the "
        "end.",
        draws.increment, body.max_iterations));
  const PhiloxState parent{0, around.draw(draws.increment * body.max_iterations), around.words};
  Backend& backend = body.stream.device().backend();
  const auto params = derive_params(backend, draws.words, parent, body.iteration, draws.increment);
  Checked(backend).graph_node_set_params(draws.head, params.params());
}

void CaptureDraws::add_to_parent(const captures::ChildNode& child) const {
  const auto parent = child.capture.get_or_attach(draws_of_capture);
  if (parent == nullptr) return;  // it is over: adding the node has failed
  {
    const std::lock_guard lock(parent->mutex_);  // the words of the child are cleared before the parent's first launch
    parent->cleared_.insert(parent->cleared_.end(), cleared_.begin(), cleared_.end());
  }
  for (const auto& draws : draws_) {
    Backend& backend = draws->generator->device().backend();
    GraphNodeHandle const head = head_in(backend, child.copy, draws->words);
    const PhiloxState from = parent->draw_for_child(*draws, child);
    const auto params = derive_params(backend, draws->words, from);
    Checked(backend).graph_node_set_params(head, params.params());
  }
}

void CaptureDraws::finish() {
  for (const auto& draws : draws_) {
    Backend& backend = draws->generator->device().backend();
    const auto head = head_params(backend, *draws);
    Checked(backend).graph_node_set_params(draws->head, head.params());
  }
  clear_words();
}

// Nothing depends on what is in them, but tools that look for reads of unwritten memory would complain. Not when a
// replay is made: it may be refused in the end, and the next one comes on a stream that knows nothing of it.
void CaptureDraws::clear_words() {
  for (const auto& draws : draws_) {
    const Device device = draws->generator->device();
    const StreamRef on = memory::stream_of_words(device);
    Backend& backend = device.backend();
    const backend::RelaxedCaptureMode relaxed(backend);
    Checked(backend).set_async({draws->words, 0, 1, sizeof(GraphRngState)}, on.native());
    EventOptions options;
    options.timing = false;
    auto cleared = std::make_shared<Event>(device, options);
    cleared->record(on);
    cleared_.push_back(std::move(cleared));
  }
}

std::shared_ptr<CaptureDraws> CaptureDraws::adopted(const std::unordered_map<GraphNodeHandle, GraphNodeHandle>& nodes,
                                                    GraphExecHandle exec) const {
  auto made = std::make_shared<CaptureDraws>();
  for (const auto& theirs : draws_) {
    const auto head = nodes.find(theirs->head);
    if (head == nodes.end()) continue;  // removed from the template by other code
    auto own = std::make_unique<GraphDraws>(*theirs);
    own->mirror_valid = false;
    own->spent.reset();
    own->head = head->second;
    own->dependent.clear();
    made->draws_.push_back(std::move(own));
  }
  made->cleared_ = cleared_;
  made->exec_ = exec;
  return made;
}

void CaptureDraws::instantiated(GraphExecHandle exec) noexcept {
  exec_ = exec;
  ordered_ = false;
  for (const auto& draws : draws_) draws->mirror_valid = false;
}

[[gnu::hot]] void CaptureDraws::prepare(GraphDraws& draws) {
  const GeneratorState from = draws.generator->spend(draws.parameters.increment);
  draws.spent = from;
  // Launches of another graph may come in between, and change the words.
  const bool shared = draws.users.use_count() > 1;
  if (!shared && draws.mirror_valid && draws.mirror == from) [[likely]]
    draws.mirror.offset += draws.parameters.increment;
  else
    set_parameters(draws, from, shared);
}

void CaptureDraws::set_parameters(GraphDraws& draws, const GeneratorState& from, bool shared) {
  draws.mirror_valid = false;
  draws.parameters.seed = from.seed;
  draws.parameters.offset = from.offset;
  draws.parameters.epoch = next_epoch();
  Backend& backend = draws.generator->device().backend();
  const auto head = head_params(backend, draws);
  Checked(backend).graph_exec_node_set_params(exec_, draws.head, head.params());
  draws.mirror = {from.seed, from.offset + draws.parameters.increment};
  draws.mirror_valid = !shared;
}

[[gnu::hot]] void CaptureDraws::before_replay(const StreamRef& stream) {
  if (!ordered_)
    for (const auto& event : cleared_) stream.wait(event->ref());
  for (const auto& draws : draws_) draws->spent.reset();
  try {
    for (const auto& draws : draws_) prepare(*draws);
  } catch (...) {
    undo_spend();
    throw;
  }
}

void CaptureDraws::undo_spend() noexcept {
  for (const auto& draws : draws_) {
    draws->mirror_valid = false;
    if (draws->spent) draws->generator->undo_spend(*draws->spent, draws->parameters.increment);
    draws->spent.reset();
  }
}

void CaptureDraws::replay_failed() noexcept {
  undo_spend();
}

PhiloxState draw_in_capture(const std::shared_ptr<DrawSource>& generator, std::uint64_t increment,
                            const StreamRef& stream, const captures::Found& found) {
  if (found.part == captures::Part::own)
    if (const auto draws = found.capture->get_or_attach(draws_of_capture))
      return draws->draw(generator, increment, stream, found);
  if (found.part == captures::Part::invalidated) captures::refuse_broken("a draw of random numbers on");
  throw UsageError(
      "Generator::philox_state: the stream takes part in a capture of other code, so that every "
      "replay would draw the same numbers. Capture with CUDAGraph, capture() or the scope graph.");
}

}  // namespace reprise::random
