// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "backend/check.h"
#include "random/capture_draws.h"
#include "random/generator_impl.h"
#include "tests/unit/random/random_fixture.h"

// Graphs whose random numbers come from a generator that is not of this library, and gives them out by itself.

namespace reprise::random::test {
namespace {

using backend::Checked;

// Keeps its own seed and offset, as libtorch's generators do.
class OtherGenerator final : public ExternalGenerator {
 public:
  Device device() const noexcept override { return current_device(); }
  GeneratorState spend(std::uint64_t increment) override {
    const std::lock_guard lock(mutex_);
    const GeneratorState before = state_;
    state_.offset += increment;
    return before;
  }
  void undo_spend(const GeneratorState& before, std::uint64_t /*increment*/) noexcept override { state_ = before; }
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

  PhiloxState philox_state(std::uint64_t increment) {
    increment = whole_offsets(increment);
    if (words_ == nullptr) return {state_.seed, spend(increment).offset, nullptr};
    const std::uint64_t offset = drawn_;
    drawn_ += increment;
    return {0, offset, words_};
  }
  void set_state(const GeneratorState& state) { state_ = state; }

 private:
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
    if (exec_ != nullptr) (void)backend_.graph_exec_destroy(exec_);
    if (graph_ != nullptr) (void)backend_.graph_destroy(graph_);
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
  Buffer<unsigned> x_{4}, y_{4};
  Stream stream_, side_;
  GraphHandle graph_ = nullptr;
  GraphExecHandle exec_ = nullptr;
  CaptureDraws draws_;
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
