// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "tests/libtorch/distributed/distributed_fixture.h"

// DataParallel in two processes, outside of captures and in them.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int steps = 4;

class DataParallelTraining : public TwoProcesses {
 protected:
  /// A step of training on memory that replays read.
  void step(torch::nn::Sequential& model, optim::SGD& optimizer, DataParallel& parallel, bool set_to_none = true) {
    optimizer.zero_grad(set_to_none);
    torch::mse_loss(model->forward(input_), target_).backward();
    parallel.finish();
    optimizer.step();
  }
  void load(int step) const {
    const Part part(step, rank());
    input_.copy_(part.input);
    target_.copy_(part.target);
  }
  void SetUp() override {
    TwoProcesses::SetUp();
    if (IsSkipped()) return;
    input_ = torch::zeros({4, 6}, device_);
    target_ = torch::zeros({4, 2}, device_);
  }

  /// Each bucket has few parameters.
  static DataParallelOptions small_buckets() {
    DataParallelOptions options;
    options.bucket_bytes = 700;
    return options;
  }
  static optim::SGDOptions sgd() { return optim::SGDOptions(0.1).momentum(0.9); }

  Tensor input_, target_;
};

TEST_F(DataParallelTraining, OutsideOfCapturesIsThatOfOneProcessOnTheJoinedBatch) {
  auto model = make_perceptron(7);
  model->to(device_);
  DataParallel parallel(*model, make_group(), small_buckets());
  EXPECT_GT(parallel.bucket_count(), 2U);
  optim::SGD optimizer(model->parameters(), sgd());
  for (int i = 0; i < steps; ++i) {
    load(i);
    step(model, optimizer, parallel, i % 2 == 0);
  }
  expect_close(model->parameters(), parameters_of_one_process(make_perceptron(7), steps, device_));
}

TEST_F(DataParallelTraining, InAGraphIsThatOfOneProcessOnTheJoinedBatch) {
  for (const bool set_to_none : {true, false}) {
    auto model = make_perceptron(7);
    model->to(device_);
    DataParallel parallel(*model, make_group(), small_buckets());
    optim::SGD optimizer(model->parameters(), sgd());
    load(0);
    CUDAGraph graph = capture({.warmup = 1}, [&] { step(model, optimizer, parallel, set_to_none); });
    for (int i = 1; i < steps; ++i) {
      load(i);
      graph.replay();
    }
    expect_close(model->parameters(), parameters_of_one_process(make_perceptron(7), steps, device_));
  }
}

// The loss of an eager step on the default stream keeps the nodes alive that add gradients there.
TEST_F(DataParallelTraining, InAGraphAfterAnEagerStepWhoseLossLives) {
  auto model = make_perceptron(7);
  model->to(device_);
  DataParallel parallel(*model, make_group(), small_buckets());
  optim::SGD optimizer(model->parameters(), sgd());
  load(0);
  here_->synchronize();
  Tensor loss;
  {
    const StreamGuard default_stream(here_->default_stream());
    loss = torch::mse_loss(model->forward(input_), target_);
    loss.backward();
    parallel.finish();
    optimizer.step();
    here_->synchronize();
  }
  load(1);
  CUDAGraph graph = capture({.warmup = 1}, [&] { step(model, optimizer, parallel); });
  for (int i = 2; i < steps; ++i) {
    load(i);
    graph.replay();
  }
  expect_close(model->parameters(), parameters_of_one_process(make_perceptron(7), steps, device_));
}

TEST_F(DataParallelTraining, BeginsWithTheValuesOfRankZero) {
  auto model = make_perceptron(static_cast<std::uint64_t>(rank()));
  model->to(device_);
  model[0]->as<torch::nn::Linear>()->register_buffer("count", torch::full({}, rank(), torch::kLong));
  const DataParallel parallel(*model, make_group());
  EXPECT_EQ(parallel.rank(), rank());
  EXPECT_EQ(parallel.world_size(), 2);
  expect_close(model->parameters(), make_perceptron(0)->parameters());
  EXPECT_EQ(model->buffers().front().item<int>(), 0);
}

TEST_F(DataParallelTraining, AddsGradientsIfItIsNotToAverageThem) {
  const Tensor x = torch::ones({3}, device_).requires_grad_();
  DataParallelOptions options;
  options.average = false;
  DataParallel parallel({x}, make_group(), options);
  (x * (rank() + 1)).sum().backward();
  parallel.finish();
  EXPECT_TRUE(torch::equal(x.grad().cpu(), torch::full({3}, 3.0F)));
}

TEST_F(DataParallelTraining, KeepsTheTypesOfGradientsApart) {
  const Tensor x = torch::ones({3}, device_).requires_grad_(), y = torch::ones({5}, x.options().dtype(torch::kDouble));
  y.requires_grad_();
  DataParallel parallel({x, y}, make_group());
  EXPECT_EQ(parallel.bucket_count(), 2U);
  (x.sum() + y.sum() * (rank() * 2)).backward();
  parallel.finish();
  EXPECT_TRUE(torch::equal(y.grad().cpu(), torch::ones({5}, torch::kDouble)));
}

TEST_F(DataParallelTraining, ReducesSmallGradientsWithTheLargeOneThatFollows) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 3; ++i)
    for (const std::int64_t size : {1000, 3}) parameters.push_back(torch::ones({size}, device_).requires_grad_());
  DataParallelOptions options;
  options.bucket_bytes = 2000;
  const DataParallel parallel(parameters, make_group(), options);
  EXPECT_EQ(parallel.bucket_count(), 3U);
}

TEST_F(DataParallelTraining, RefusesOtherShapesAndNamesBothRanksOnEach) {
  const std::int64_t size = 3 + rank();
  const std::string text = refusal_of([&] {
    const DataParallel parallel({torch::ones({2}, device_), torch::ones({size}, device_)}, make_group());
  });
  EXPECT_THAT(text,
              AllOf(HasSubstr("Rank 0 has `parameter 1: Float [3]"), HasSubstr("rank 1 has `parameter 1: Float [4]")));
}

TEST_F(DataParallelTraining, RefusesAParameterWithoutGradientByName) {
  const Tensor x = torch::ones({3}, device_).requires_grad_(), y = torch::ones({5}, device_).requires_grad_();
  DataParallel parallel({x, y}, make_group());
  x.sum().backward();
  EXPECT_THAT(refusal_of([&] { parallel.finish(); }), HasSubstr("the parameter parameter 1 got no gradient"));
  (x.sum() + y.sum()).backward();  // both ranks are as they were
  parallel.finish();
}

TEST_F(DataParallelTraining, TakesZerosForUnusedParametersIfTheyAreAllowed) {
  const Tensor x = torch::ones({3}, device_).requires_grad_(), y = torch::ones({5}, device_).requires_grad_();
  DataParallelOptions options;
  options.allow_unused = true;
  DataParallel parallel({x, y}, make_group(), options);
  for (int i = 0; i < 2; ++i) {
    x.mutable_grad() = y.mutable_grad() = Tensor();
    (rank() == 0 ? x.sum() : x.sum() + 4 * y.sum()).backward();
    parallel.finish();
    EXPECT_TRUE(torch::equal(y.grad().cpu(), torch::full({5}, 2.0F)));
  }
}

TEST_F(DataParallelTraining, RefusesASecondGradientBeforeTheEndOfTheRound) {
  const Tensor x = torch::ones({3}, device_).requires_grad_(), y = torch::ones({5}, device_).requires_grad_();
  DataParallel parallel({x, y}, make_group());
  x.sum().backward();
  EXPECT_THAT(refusal_of([&] { x.sum().backward(); }), HasSubstr("got a second gradient before finish()"));
}

TEST_F(DataParallelTraining, IsRefusedWithinACapture) {
  const Tensor x = torch::ones({3}, device_).requires_grad_();
  const auto group = make_group();
  EXPECT_THAT(refusal_of([&] { capture([&] { const DataParallel parallel({x}, group); }); }),
              HasSubstr("DataParallel was made in a capture"));
}

TEST_F(DataParallelTraining, IsRefusedForParametersThatHaveOneAlready) {
  const Tensor x = torch::ones({3}, device_).requires_grad_();
  const auto group = make_group();
  const DataParallel parallel({x}, group);
  EXPECT_THAT(refusal_of([&] { const DataParallel another({x}, group); }), HasSubstr("has a hook after its gradient"));
}

TEST_F(DataParallelTraining, LeavesParametersAsOthersAreWhenItEnds) {
  const Tensor x = torch::ones({3}, device_).requires_grad_();
  const auto group = make_group();
  { const DataParallel parallel({x}, group); }
  (x * (rank() + 1)).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad().cpu(), torch::full({3}, rank() + 1.0F)));
  const DataParallel again({x}, group);
}

TEST_F(DataParallelTraining, CanBeCapturedAgainAfterACaptureThatFailedHalfWay) {
  const Tensor x = torch::ones({3}, device_).requires_grad_(), y = torch::ones({5}, device_).requires_grad_();
  DataParallel parallel({x, y}, make_group());
  CUDAGraph graph;
  EXPECT_THROW(capture(graph,
                       [&] {
                         x.sum().backward();
                         throw std::runtime_error("half way");
                       }),
               std::runtime_error);
  capture(graph, [&] {
    (x.sum() + y.sum() * rank()).backward();
    parallel.finish();
  });
  x.grad().zero_();
  y.grad().zero_();
  graph.replay();
  EXPECT_TRUE(torch::equal(y.grad().cpu(), torch::full({5}, 0.5F)));
}

// The numbers of the nodes that depend on this one, by any way.
std::set<std::size_t> dependents(const std::vector<GraphNode>& nodes, std::size_t of) {
  std::set<std::size_t> found{of};
  for (const GraphNode& each : nodes)
    for (const NodeDependency& dependency : each.dependencies())
      if (found.contains(dependency.index)) found.insert(each.index());
  return found;
}

// What was captured between the first and the last node whose text has this, and does not wait for the first one.
std::size_t nodes_beside(const std::vector<GraphNode>& nodes, const std::string& text, std::size_t expected) {
  std::vector<std::size_t> found;
  for (const GraphNode& each : nodes)
    if (each.str().find(text) != std::string::npos) found.push_back(each.index());
  EXPECT_EQ(found.size(), expected);
  if (found.empty()) return 0;
  const std::set<std::size_t> after_first = dependents(nodes, found.front());
  EXPECT_TRUE(after_first.contains(found.back())) << "one after another";
  std::size_t beside = 0;
  for (std::size_t i = found.front(); i < found.back(); ++i) beside += after_first.contains(i) ? 0U : 1U;
  return beside;
}

TEST_F(DataParallelTraining, CopiesAndReducesABucketWhileOtherGradientsAreComputed) {
  if (device_.is_cuda()) GTEST_SKIP() << "nodes of NCCL have no name that is known";
  auto model = make_perceptron(7);
  model->to(device_);
  DataParallel parallel(*model, make_group(), small_buckets());
  CUDAGraph graph(KeepGraph::yes);
  capture(graph, [&] {
    torch::mse_loss(model->forward(input_), target_).backward();
    parallel.finish();
  });
  const std::vector<GraphNode> nodes = graph.nodes();
  EXPECT_GE(nodes_beside(nodes, "allreduce", parallel.bucket_count()), 6U);
  EXPECT_GE(nodes_beside(nodes, "aten::copy_", model->parameters().size()), 3U);  // the backward of the first layer
}

TEST_F(DataParallelTraining, KeepsGradientsUntilTheirCopiesAreDone) {
  const Tensor x = torch::ones({1000}, device_).requires_grad_(), y = torch::ones({1000}, device_).requires_grad_();
  DataParallel parallel({y, x}, make_group(), {.bucket_bytes = 1});
  CUDAGraph graph = capture([&] {
    (x * (rank() + 1)).sum().backward();  // copied beside what follows, which allocates
    Tensor sum = torch::zeros({1000}, device_);
    for (int i = 0; i < 8; ++i) sum = sum + torch::full({1000}, 100.0F, device_);
    (y * sum).sum().backward();
    parallel.finish();
  });
  graph.replay();
  EXPECT_TRUE(torch::equal(x.grad().cpu(), torch::full({1000}, 1.5F)));
  EXPECT_TRUE(torch::equal(y.grad().cpu(), torch::full({1000}, 800.0F)));
}

TEST_F(DataParallelTraining, KeepsGradientsOfAnotherStreamUntilTheirCopiesAreDone) {
  const Tensor x = torch::ones({1000}, device_).requires_grad_();
  DataParallel parallel({x}, make_group());
  const Stream other(*here_);
  CUDAGraph graph = capture([&](const StreamRef& here) {
    other.wait(here);
    {
      const StreamGuard guard(other);
      (x * (rank() + 1)).sum().backward();
    }
    parallel.finish();  // the stream of the backward pass does not wait for it
    const StreamGuard guard(other);
    std::vector<Tensor> all_that_is_free;
    for (int i = 0; i < 8; ++i) all_that_is_free.push_back(torch::full({1000}, 100.0F, device_));
    here.wait(other);
  });
  graph.replay();
  EXPECT_TRUE(torch::equal(x.grad().cpu(), torch::full({1000}, 1.5F)));
}

}  // namespace
}  // namespace reprise::libtorch::test
