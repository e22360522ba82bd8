// SPDX-License-Identifier: Apache-2.0
#include "random/capture_draws.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "backend/check.h"
#include "backend/own_kernels.h"
#include "backend/own_records.h"
#include "backend/per_device.h"
#include "memory/allocator_impl.h"

namespace reprise::random {

using backend::Backend;
using backend::Call;
using backend::Checked;

namespace {

struct AdvanceWords {
  REPRISE_KERNEL void operator()(Thread, std::uint64_t* words, Advance by) const {
    advance(reinterpret_cast<GraphRngState*>(words), by);
  }
  static auto accesses(std::uint64_t* words, Advance) { return std::array{reads(words, 4), writes(words, 4)}; }
};

const KernelRecord& advance_record() {
  static const KernelRecord record = [] {
    KernelRecord made = kernel_record<AdvanceWords>();
    made.name = "reprise_advance_random";
    made.cuda_function = &backend::find_own_kernel;
    made.symbol = "reprise_advance_random";
    return made;
  }();
  static const KernelRecord& known = backend::add_own_record(record);
  return known;
}

// Garbage that lies in new memory is no epoch: they begin far from zero, and none is given twice.
std::uint64_t next_epoch() {
  static std::atomic<std::uint64_t> last{0x7265707269736500};
  return ++last;
}

// The parameters of a head node; they point into this object.
class HeadParams {
 public:
  HeadParams(Backend& backend, const GraphDraws& draws) : words_(draws.words) {
    by_ = draws.parameters;
    Checked(backend).kernel_function(advance_record(), &params_.function);
    params_.params = pointers_;
  }
  HeadParams(const HeadParams&) = delete;
  HeadParams& operator=(const HeadParams&) = delete;
  const backend::KernelNodeParams& params() const { return params_; }

 private:
  std::uint64_t* words_;
  Advance by_;
  void* pointers_[2] = {&words_, &by_};
  backend::KernelNodeParams params_;
};

constinit captures::Slot<CaptureDraws> draws_of_capture;

// The stream on which words are allocated and cleared. Nothing else uses it: otherwise words could reuse memory freed
// by nodes captured before the first draw, and those nodes would overwrite them in each replay, after the head node.
//
// Such streams live as long as their devices, and count as no use of them.
struct StreamOfWords {
  StreamHandle handle = nullptr;
};

StreamRef stream_of_words(const Device& device) {
  return backend::PerDevice<StreamOfWords>::use(device, [&](StreamOfWords& stream) {
    if (stream.handle == nullptr)
      Checked(device.backend()).stream_create(&stream.handle, backend::StreamFlags::non_blocking, 0);
    return StreamRef(device, stream.handle);
  });
}

Words allocate_words(const StreamRef& stream) {
  CachingAllocator& allocator = CachingAllocator::of(stream.device());
  void* const words = allocator.impl().allocate(sizeof(GraphRngState), stream, stream_of_words(stream.device()));
  return Words(static_cast<std::uint64_t*>(words), WordsDeleter{&allocator});
}

}  // namespace

Words allocate_lent_words(const Device& device) {
  CachingAllocator& allocator = CachingAllocator::of(device);
  void* const words = allocator.impl().allocate(sizeof(GraphRngState), stream_of_words(device));
  Words owned(static_cast<std::uint64_t*>(words), WordsDeleter{&allocator});
  allocator.impl().hide_from_graphs(words);
  return owned;
}

namespace {

void require_kernel(const Device& device) {
  if (device.type() == DeviceType::host || backend::has_own_kernels()) return;
  throw UsageError(
      "Random numbers in a capture on a CUDA device need a kernel of this library; this build has none, because nvcc "
      "was not found when it was built: build it again with nvcc in PATH.");
}

}  // namespace

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
}

GraphDraws& CaptureDraws::draws_of(const std::shared_ptr<DrawSource>& generator, const StreamRef& stream,
                                   GraphHandle graph) {
  const auto known =
      std::find_if(draws_.begin(), draws_.end(), [&](const auto& draws) { return draws->generator == generator; });
  if (known != draws_.end()) return **known;
  require_kernel(stream.device());
  held_.reserve(held_.size() + 1);
  GraphDraws& made = add(generator, allocate_words(stream), 0, graph);
  held_.push_back(generator);
  generator->begin_capture();
  return made;
}

GraphDraws& CaptureDraws::add(const std::shared_ptr<DrawSource>& generator, Words words, std::uint64_t increment,
                              GraphHandle graph) {
  auto made = std::make_unique<GraphDraws>();
  made->generator = generator;
  made->words = words.get();
  made->parameters.epoch = next_epoch();
  made->parameters.increment = increment;
  Backend& backend = generator->device().backend();
  const HeadParams head(backend, *made);
  backend::NodeParams params = head.params();
  draws_.reserve(draws_.size() + 1);
  words_->reserve(words_->size() + 1);
  Checked(backend).graph_add_node(&made->head, graph, {}, params);
  draws_.push_back(std::move(made));
  words_->push_back(std::move(words));
  return *draws_.back();
}

void CaptureDraws::add_drawn(const std::shared_ptr<DrawSource>& generator, Words words, std::uint64_t increment,
                             GraphHandle graph) {
  require_kernel(generator->device());
  const Checked runtime(generator->device().backend());
  std::vector<GraphNodeHandle> nodes;
  std::vector<backend::Edge> edges;
  runtime.graph_nodes(graph, &nodes);
  runtime.graph_edges(graph, &edges);
  std::unordered_set<GraphNodeHandle> later;
  for (const backend::Edge& edge : edges) later.insert(edge.to);
  std::vector<backend::Edge> after_head;
  GraphDraws& draws = add(generator, std::move(words), increment, graph);
  for (GraphNodeHandle const node : nodes)
    if (!later.contains(node)) after_head.push_back({draws.head, node});
  runtime.graph_add_dependencies(graph, after_head);
}

PhiloxState CaptureDraws::draw(const std::shared_ptr<DrawSource>& generator, std::uint64_t increment,
                               const StreamRef& stream, GraphHandle graph) {
  const std::lock_guard lock(mutex_);
  GraphDraws& draws = draws_of(generator, stream, graph);
  if (std::find(draws.dependent.begin(), draws.dependent.end(), stream.native()) == draws.dependent.end()) {
    const Checked runtime(stream.device().backend());
    draws.dependent.reserve(draws.dependent.size() + 1);
    runtime.stream_update_capture_dependencies(stream.native(), {&draws.head, 1}, backend::UpdateDependencies::add);
    draws.dependent.push_back(stream.native());
  }
  const std::uint64_t offset = draws.parameters.increment;
  draws.parameters.increment += increment;
  return {0, offset, draws.words};
}

void CaptureDraws::finish() {
  for (const auto& draws : draws_) {
    Backend& backend = draws->generator->device().backend();
    const HeadParams head(backend, *draws);
    Checked(backend).graph_node_set_params(draws->head, head.params());
  }
  clear_words();
}

// Nothing depends on what is in them, but tools that look for reads of unwritten memory would complain. Not when a
// replay is made: it may be refused in the end, and the next one comes on a stream that knows nothing of it.
void CaptureDraws::clear_words() {
  for (const auto& draws : draws_) {
    const Device device = draws->generator->device();
    const StreamRef on = stream_of_words(device);
    Backend& backend = device.backend();
    const backend::RelaxedCaptureMode relaxed(backend);
    Checked(backend).set_async({draws->words, 0, 1, sizeof(GraphRngState)}, on.native());
    EventOptions options;
    options.timing = false;
    cleared_.emplace_back(device, options).record(on);
  }
}

void CaptureDraws::instantiated(GraphExecHandle exec) noexcept {
  exec_ = exec;
  ordered_ = false;
  for (const auto& draws : draws_) draws->mirror_valid = false;
}

void CaptureDraws::prepare(GraphDraws& draws) {
  const GeneratorState from = draws.generator->spend(draws.parameters.increment);
  draws.spent = from;
  if (draws.mirror_valid && draws.mirror == from) {
    draws.mirror.offset += draws.parameters.increment;
    return;
  }
  draws.mirror_valid = false;
  draws.parameters.seed = from.seed;
  draws.parameters.offset = from.offset;
  draws.parameters.epoch = next_epoch();
  Backend& backend = draws.generator->device().backend();
  const HeadParams head(backend, draws);
  Checked(backend).graph_exec_node_set_params(exec_, draws.head, head.params());
  draws.mirror = {from.seed, from.offset + draws.parameters.increment};
  draws.mirror_valid = true;
}

void CaptureDraws::before_replay(const StreamRef& stream) {
  if (!ordered_)
    for (const Event& event : cleared_) stream.wait(event.ref());
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
      return draws->draw(generator, increment, stream, found.info.graph);
  if (found.part == captures::Part::invalidated)
    throw BackendError(backend::cuda_name(Call::stream_capture_info), ErrorCode::stream_capture_invalidated,
                       "a draw of random numbers on a stream whose capture was broken by an earlier call; "
                       "CUDAGraph::capture_end reports which",
                       SourceLocation::current());
  throw UsageError(
      "Generator::philox_state: the stream takes part in a capture that this library did not begin, so that every "
      "replay would draw the same numbers. Capture with CUDAGraph, capture() or the scope graph.");
}

}  // namespace reprise::random
