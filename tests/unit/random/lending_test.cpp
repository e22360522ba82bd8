// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "backend/check.h"
#include "captures/child_node.h"
#include "captures/registry.h"
#include "random/capture_draws.h"
#include "random/generator_impl.h"
#include "random/lent_words.h"
#include "tests/unit/random/random_fixture.h"

// Graphs whose random numbers come from a generator that is not of this library, and gives them out by itself.

namespace reprise::random::test {
namespace {

using backend::Checked;

// Keeps its own seed and offset, as libtorch's generators do: of these, several can share a state.
class OtherGenerator final : public ExternalGenerator {
 public:
  OtherGenerator() = default;
  explicit OtherGenerator(const std::shared_ptr<OtherGenerator>& of_state) : of_state_(of_state) {}

  const void* identity() const noexcept override { return &own(); }
  Device device() const noexcept override { return current_device(); }
  GeneratorState spend(std::uint64_t increment) override {
    const std::lock_guard lock(own().mutex_);
    GeneratorState& state = own().state_;
    const GeneratorState before = state;
    state.offset += increment;
    return before;
  }
  void undo_spend(const GeneratorState& before, std::uint64_t /*increment*/) noexcept override {
    own().state_ = before;
  }
  bool attach(std::uint64_t* words) override {
    if (words_ != nullptr) return false;
    words_ = words;
    return true;
  }
  std::optional<std::uint64_t> detach() override {
    words_ = nullptr;
    return std::exchange(drawn_, 0);
  }
  void abandon() noexcept override { words_ = nullptr; }
  std::uint64_t draw(std::uint64_t increment) override { return std::exchange(drawn_, drawn_ + increment); }

  PhiloxState philox_state(std::uint64_t increment) {
    increment = whole_offsets(increment);
    if (words_ == nullptr) return {own().state_.seed, spend(increment).offset, nullptr};
    return {0, draw(increment), words_};
  }
  void set_state(const GeneratorState& state) { own().state_ = state; }

 private:
  const OtherGenerator& own() const { return of_state_ != nullptr ? *of_state_ : *this; }
  OtherGenerator& own() { return of_state_ != nullptr ? *of_state_ : *this; }

  const std::shared_ptr<OtherGenerator> of_state_;  // null: it has one
  std::mutex mutex_;
  GeneratorState state_{42, 0};
  std::uint64_t* words_ = nullptr;
  std::uint64_t drawn_ = 0;
};

// A capture by the device runtime alone, with one such generator: what a listener does, step by step.
class ExternalGeneratorInAGraph : public ::testing::Test {
 protected:
  using Numbers = std::vector<unsigned>;

  ~ExternalGeneratorInAGraph() override {
    current_stream().synchronize();
    stream_.ref().synchronize();
    for (GraphExecHandle const exec : {exec_, parent_exec_})
      if (exec != nullptr) (void)backend_.graph_exec_destroy(exec);
    for (GraphHandle const graph : {graph_, parent_})
      if (graph != nullptr) (void)backend_.graph_destroy(graph);
  }

  void draw_into(Buffer<unsigned>& x, PhiloxState state, const StreamRef& stream) {
    launch(stream, x.size(), Draw{}, state, x.data(), x.size(), 1U);
  }
  // Two kernels that draw, on two streams that join.
  void work() {
    const Event begun(current_device()), joined(current_device());
    begun.record(stream_);
    side_.ref().wait(begun.ref());
    draw_into(x_, generator_->philox_state(1), stream_);
    draw_into(y_, generator_->philox_state(1), side_);
    joined.record(side_);
    stream_.ref().wait(joined.ref());
  }
  // Without dependencies between them.
  void capture_roots() {
    memory::DeviceWords words = memory::allocate_hidden_words(sizeof(GraphRngState), current_device());
    ASSERT_TRUE(generator_->attach(words.get()));
    const StreamHandle stream = stream_.ref().native();
    Checked(backend_).stream_begin_capture(stream, CaptureMode::thread);
    work();
    Checked(backend_).stream_end_capture(stream, &graph_);
    const std::uint64_t drawn = generator_->detach().value();
    EXPECT_EQ(drawn, 8U);
    draws_.add_drawn(generator_, std::move(words), drawn, graph_);
    draws_.finish();
    Checked(backend_).graph_instantiate(&exec_, graph_, {}, nullptr);
    draws_.instantiated(exec_);
  }
  // Adds the graph of capture_roots() to the capture of the stream.
  void add_child(captures::Capture& capture) {
    const captures::Found found = captures::find(stream_);
    const std::vector<GraphNodeHandle> after(found.info.dependencies.begin(), found.info.dependencies.end());
    backend::NodeParams params = backend::ChildGraphNodeParams{graph_};
    GraphNodeHandle node = nullptr;
    Checked(backend_).graph_add_node(&node, found.info.graph, {after}, params);
    Checked(backend_).graph_node_params(node, &params);
    GraphHandle const copy = std::get<backend::ChildGraphNodeParams>(params).graph;
    draws_.add_to_parent({capture, stream_, found.info.graph, nullptr, after, node, copy, graph_});
    Checked(backend_).stream_update_capture_dependencies(stream_.ref().native(), {&node, 1},
                                                         backend::UpdateDependencies::set);
  }
  // The child between draws of the parent, and once more after them.
  void capture_parent() {
    const auto generator = std::make_shared<OtherGenerator>(generator_);
    const GraphOptions options{.capture_error_mode = CaptureMode::thread};
    captures::Registration registration(stream_, options, graph_pool_handle());
    captures::Capture& capture = registration.capture();
    memory::DeviceWords words = memory::allocate_hidden_words(sizeof(GraphRngState), current_device());
    ASSERT_TRUE(generator->attach(words.get()));
    LentWords::open(capture)->serves(generator, words.get());
    Checked(backend_).stream_begin_capture(stream_.ref().native(), CaptureMode::thread);
    draw_into(first_, generator->philox_state(1), stream_);
    add_child(capture);
    draw_into(last_, generator->philox_state(1), stream_);
    copy_async(x_before_.data(), x_.data(), x_.size_bytes(), stream_);
    add_child(capture);
    capture.capture_ends();
    Checked(backend_).stream_end_capture(stream_.ref().native(), &parent_);
    registration.over();
    of_children_ = CaptureDraws::end(capture);
    parent_draws_.add_drawn(generator, std::move(words), generator->detach().value(), parent_);
    parent_draws_.finish();
    Checked(backend_).graph_instantiate(&parent_exec_, parent_, {}, nullptr);
    of_children_->instantiated(parent_exec_);
    parent_draws_.instantiated(parent_exec_);
  }
  Numbers parent_replayed() {
    of_children_->before_replay(stream_);
    parent_draws_.before_replay(stream_);
    Checked(backend_).graph_launch(parent_exec_, stream_.ref().native());
    return parents();
  }
  Numbers parents() {
    stream_.ref().synchronize();
    Numbers all = read(first_);
    for (const Buffer<unsigned>* const each : {&last_, &x_before_, &x_, &y_}) {
      const Numbers more = read(*each);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  Numbers parent_eager() {
    const StreamRef stream = stream_;
    draw_into(first_, twin_.philox_state(1, stream), stream);
    eager();
    draw_into(last_, twin_.philox_state(1, stream), stream);
    copy_async(x_before_.data(), x_.data(), x_.size_bytes(), stream);
    eager();
    return parents();
  }
  Numbers both() {
    stream_.ref().synchronize();
    Numbers numbers = read(x_);
    const Numbers more = read(y_);
    numbers.insert(numbers.end(), more.begin(), more.end());
    return numbers;
  }
  Numbers replayed() {
    draws_.before_replay(stream_);
    Checked(backend_).graph_launch(exec_, stream_.ref().native());
    draws_.replayed();
    return both();
  }
  Numbers eager() {
    const StreamRef stream = stream_;
    draw_into(x_, twin_.philox_state(1, stream), stream);
    draw_into(y_, twin_.philox_state(1, stream), stream);
    return both();
  }

  backend::Backend& backend_ = current_device().backend();
  std::shared_ptr<OtherGenerator> generator_ = std::make_shared<OtherGenerator>();
  Generator twin_{current_device(), 42};
  Buffer<unsigned> x_{4}, y_{4}, first_{4}, last_{4}, x_before_{4};
  Stream stream_, side_;
  GraphHandle graph_ = nullptr, parent_ = nullptr;
  GraphExecHandle exec_ = nullptr, parent_exec_ = nullptr;
  CaptureDraws draws_, parent_draws_;
  std::shared_ptr<CaptureDraws> of_children_;  // of those whose generator serves no draws of the parent: none here
};

TEST_F(ExternalGeneratorInAGraph, DrawsWhatEagerWorkWouldHaveDrawn) {
  capture_roots();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(replayed(), eager()) << i;
}

TEST_F(ExternalGeneratorInAGraph, GoesOnWhereTheGeneratorWasSet) {
  capture_roots();
  for (const std::uint64_t seed : {7U, 8U, 7U}) {
    generator_->set_state({seed, 16});
    twin_.set_state({seed, 16});
    EXPECT_EQ(replayed(), eager());
    EXPECT_EQ(replayed(), eager());
  }
}

TEST_F(ExternalGeneratorInAGraph, AsAChildDrawsInItsPlaceAmongTheDrawsOfTheParent) {
  capture_roots();
  capture_parent();
  EXPECT_EQ(parent_replayed(), parent_eager());
  EXPECT_EQ(replayed(), eager());
  EXPECT_EQ(parent_replayed(), parent_eager());
  EXPECT_EQ(parent_replayed(), parent_eager());
}

TEST_F(ExternalGeneratorInAGraph, HasOneHeadNodeBeforeAllOthers) {
  capture_roots();
  std::vector<GraphNodeHandle> nodes;
  std::vector<backend::Edge> edges;
  Checked(backend_).graph_nodes(graph_, &nodes);
  Checked(backend_).graph_edges(graph_, &edges);
  EXPECT_EQ(nodes.size(), 3U);
  for (const GraphNodeHandle node : nodes) {
    const auto before =
        std::count_if(edges.begin(), edges.end(), [&](const backend::Edge& edge) { return edge.to == node; });
    EXPECT_EQ(before, node == nodes.back() ? 0 : 1);
  }
}

TEST_F(ExternalGeneratorInAGraph, LendsWordsThatAreNoInputOfAnyGraph) {
  Buffer<unsigned> sink(8);
  const memory::DeviceWords words = memory::allocate_hidden_words(sizeof(GraphRngState), current_device());
  CUDAGraph graph;
  GraphOptions options;
  options.check_input_liveness = true;
  capture(graph, options, [&] { draw_into(sink, {0, 0, words.get()}, current_stream()); });
  ASSERT_EQ(graph.inputs().size(), 1U);
  EXPECT_EQ(graph.inputs()[0].address, sink.data());
}

}  // namespace
}  // namespace reprise::random::test
