// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/parameters/parameters_fixture.h"

// Parameters of graphs: values that are set before a replay.

namespace reprise::graphs::test {
namespace {

class ParametersOfGraphs : public GraphWithParameters {};

INSTANTIATE_TEST_SUITE_P(Kept, ParametersOfGraphs, ::testing::Values(KeepGraph::no, KeepGraph::yes), name_of_kept);

TEST_P(ParametersOfGraphs, AValueIsSetForLaterReplays) {
  capture_both();
  EXPECT_EQ(replayed(y_), 10);
  graph_.set(factor_, 100);
  EXPECT_EQ(graph_.get(factor_), 100);
  EXPECT_EQ(factor_.initial(), 10);
  EXPECT_EQ(replayed(y_), 200);
  EXPECT_EQ(graph_.node("Multiply").arg<int>(1), 100);
}

TEST_P(ParametersOfGraphs, SeveralAreSetAtOnce) {
  capture_both();
  graph_.set({{factor_, 2}, {amount_, 5}});
  EXPECT_EQ(replayed(y_), 10);
  const std::vector<ParameterValue> values{{factor_, 3}, {amount_, 1}};
  graph_.set(values);
  EXPECT_EQ(replayed(y_), 18);
  graph_.set({{factor_, 7}, {factor_, 4}});  // the last one counts
  EXPECT_EQ(graph_.get(factor_), 4);
  EXPECT_EQ(replayed(y_), 28);
  graph_.set({{factor_, 5}, {factor_, 4}});
  EXPECT_EQ(replayed(y_), 32);
  graph_.set(std::span<const ParameterValue>());
}

TEST_P(ParametersOfGraphs, OutsideOfCapturesTheyStandForTheirInitialValue) {
  launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
  EXPECT_EQ(first(x_), 1);
}

TEST_P(ParametersOfGraphs, OneIsUsedByAllLaunchesThatItWasPassedTo) {
  const Stream other;
  capture(graph_, [&] {
    const StreamRef here = current_stream();
    other.wait(here);
    launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
    launch(other, x_.size(), Add{}, y_.data(), amount_, x_.size());
    here.wait(other);
  });
  graph_.set(amount_, 6);
  EXPECT_EQ(replayed(x_), 6);
  EXPECT_EQ(first(y_), 6);
}

TEST_P(ParametersOfGraphs, OneHasAValueOfItsOwnInEachGraph) {
  CUDAGraph second;
  capture_both();
  capture(second, [&] { launch(x_.size(), Add{}, z_.data(), amount_, x_.size()); });
  graph_.set(amount_, 5);
  second.replay();
  EXPECT_EQ(first(z_), 1);
  second.set(amount_, 7);
  EXPECT_EQ(second.get(amount_), 7);
  EXPECT_EQ(graph_.get(amount_), 5);
  EXPECT_EQ(replayed(x_), 5);
  second.replay();
  EXPECT_EQ(first(z_), 8);
}

TEST_P(ParametersOfGraphs, PointersOfLaunchesAreSet) {
  const Parameter<int*> target(x_.data());
  capture(graph_, [&] {
    launch(x_.size(), Add{}, target, 1, x_.size());
    launch(x_.size(), Multiply{}, target, 10, y_.data(), x_.size());  // gains const
  });
  graph_.set(target, z_.data());
  EXPECT_EQ(replayed(y_), 10);
  EXPECT_EQ(first(z_), 1);
  EXPECT_EQ(first(x_), 0);
}

TEST_P(ParametersOfGraphs, OfAnotherGraphOrOneThatWasResetAreRefused) {
  capture_both();
  const Parameter<int> stranger(1);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.set(stranger, 2); }), "a parameter of this graph"));
  EXPECT_THROW((void)graph_.get(stranger), UsageError);
  EXPECT_THROW(graph_.set({{factor_, 2}, {stranger, 2}}), UsageError);
  EXPECT_EQ(graph_.get(factor_), 10);
  graph_.reset();
  EXPECT_THROW(graph_.set(factor_, 2), UsageError);
  capture(graph_, [&] { add(x_); });
  EXPECT_THROW(graph_.set(factor_, 2), UsageError);
  graph_.reset();
  capture_both();
  EXPECT_EQ(graph_.get(factor_), 10);
}

TEST_P(ParametersOfGraphs, AreKeptByAMoveAndByInstantiate) {
  capture_both();
  graph_.set(factor_, 2);
  CUDAGraph moved(std::move(graph_));
  moved.set(amount_, 3);
  if (GetParam() == KeepGraph::yes) moved.instantiate();
  moved.replay();
  EXPECT_EQ(first(y_), 6);
}

TEST_P(ParametersOfGraphs, KeepTheTemplateThatIsToBeDiscarded) {
  if (GetParam() == KeepGraph::yes) return;
  capture(graph_, {.discard_template = true}, [&] { launch(x_.size(), Add{}, x_.data(), amount_, x_.size()); });
  graph_.set(amount_, 8);
  EXPECT_EQ(replayed(x_), 8);
}

TEST_P(ParametersOfGraphs, AfterAChangeOfTheNodeTheValueIsSetAgain) {
  capture_both();
  graph_.node("Multiply").set_arg(1, 55);
  EXPECT_EQ(graph_.get(factor_), 55);
  graph_.set(factor_, 10);
  EXPECT_EQ(graph_.node("Multiply").arg<int>(1), 10);
  EXPECT_EQ(replayed(y_), 10);
}

TEST_P(ParametersOfGraphs, TwoOfOnePlaceAreThatOfTheLastSet) {
  const Parameter<int*> target(x_.data());
  capture(graph_, [&] { launch(x_.size(), Add{}, target, 1, x_.size()); });
  const Parameter<int*> same = graph_.parameter(x_.data());
  graph_.set(target, y_.data());
  EXPECT_EQ(graph_.get(same), y_.data());
  graph_.set(same, x_.data());
  EXPECT_EQ(replayed(x_), 1);
  graph_.set(target, y_.data());
  EXPECT_EQ(replayed(y_), 1);
  Buffer<int> z = zeros();
  graph_.set({{target, x_.data()}, {same, z.data()}});
  EXPECT_EQ(graph_.get(target), z.data());
  EXPECT_EQ(replayed(z), 1);
}

TEST_P(ParametersOfGraphs, TheLastOfOnePlaceCountsThoughItHasItsValueBeforeTheCall) {
  const Parameter<int*> target(x_.data());
  capture(graph_, [&] {
    launch(x_.size(), Add{}, target, 1, x_.size());
    launch(x_.size(), Add{}, x_.data(), 1, x_.size());
  });
  const Parameter<int*> all = graph_.parameter(x_.data());
  graph_.set({{target, y_.data()}, {all, x_.data()}});
  EXPECT_EQ(graph_.get(all), x_.data());
  EXPECT_EQ(graph_.get(target), x_.data());
  EXPECT_EQ(replayed(x_), 2);
}

TEST_P(ParametersOfGraphs, WithinAHookOfTheGraphAreReadAndNotSet) {
  int calls = 0;
  capture_both();
  graph_.add_hooks({.before_replay = [&](const StreamRef&) {
    ++calls;
    EXPECT_EQ(graph_.get(factor_), 10);
    EXPECT_THROW(graph_.set(factor_, 2), UsageError);
    EXPECT_THROW(graph_.set(factor_, 10), UsageError);
    EXPECT_THROW((void)graph_.parameter(x_.data()), UsageError);
  }});
  EXPECT_EQ(replayed(y_), 10);
  EXPECT_EQ(calls, 1);
}

TEST_P(ParametersOfGraphs, ALaunchedReplayHasTheValueBefore) {
  reprise::test::Gate gate(reprise::test::by_steps_too);
  capture_both();
  graph_.upload();
  call_on_host(side_.ref(), &reprise::test::Gate::pass, &gate);
  graph_.replay();
  graph_.set(factor_, 99);
  gate.open();
  EXPECT_EQ(first(y_), 10);
}

TEST_P(ParametersOfGraphs, AreSetAllTogetherWhileOtherThreadsReplay) {
  // y = factor * x and z = factor * x: never of two different factors.
  const Parameter<int> again(10);
  int torn = 0;
  x_.write(std::vector<int>{1, 1, 1, 1});
  capture(graph_, [&] {
    launch(1, Multiply{}, x_.data(), factor_, y_.data(), std::size_t{1});
    launch(1, Multiply{}, x_.data(), again, z_.data(), std::size_t{1});
    launch_host([&] { torn += *y_.data() != *z_.data(); });
  });
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "the host function reads device memory";
  const StreamRef stream = side_.ref();
  std::thread setter([&] {
    for (int i = 0; i < 300; ++i) graph_.set({{factor_, i}, {again, i}});
  });
  for (int i = 0; i < 300; ++i) graph_.replay(stream);
  setter.join();
  stream.synchronize();
  EXPECT_EQ(torn, 0);
}

TEST_P(ParametersOfGraphs, OfANodeThatWasRemovedAreSetInTheOthers) {
  if (GetParam() == KeepGraph::no) return;
  capture(graph_, [&] {
    launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
    launch(x_.size(), Add{}, y_.data(), amount_, x_.size());
  });
  backend::Checked(default_device().backend()).graph_destroy_node(graph_.nodes()[0].native());
  EXPECT_EQ(graph_.get(amount_), 1);
  graph_.set(amount_, 4);
  EXPECT_EQ(graph_.get(amount_), 4);
  EXPECT_EQ(replayed(y_), 4);
  EXPECT_EQ(first(x_), 0);
}

TEST_P(ParametersOfGraphs, AreSetAlsoWhereTheTemplateWasEditedMeanwhile) {
  if (GetParam() == KeepGraph::no) return;
  capture(graph_, [&] { launch(x_.size(), Add{}, x_.data(), amount_, x_.size()); });
  graph_.set(amount_, 2);
  const backend::Checked runtime(default_device().backend());
  backend::NodeParams params;
  runtime.graph_node_params(graph_.nodes()[0].native(), &params);
  int other = 50;
  std::get<backend::KernelNodeParams>(params).params[1] = &other;
  runtime.graph_node_set_params(graph_.nodes()[0].native(), params);
  EXPECT_EQ(graph_.get(amount_), 50);
  graph_.set(amount_, 2);
  EXPECT_EQ(graph_.get(amount_), 2);
  graph_.instantiate();
  EXPECT_EQ(replayed(x_), 2);
}

/// Counts and fails calls of the device.
class ParametersOfAFaultyDevice : public ::testing::Test {
 protected:
  static backend::test::FaultyBackend& faulty() {
    static auto& backend = *new backend::test::FaultyBackend(default_device().backend());
    return backend;
  }
  ~ParametersOfAFaultyDevice() override { faulty().heal(); }

  const DeviceGuard device_{Device(faulty())};
  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4);
  const Parameter<int> amount_{1}, factor_{10};
  CUDAGraph graph_;
};

TEST_F(ParametersOfAFaultyDevice, IfOneChangeFailsTheOthersArePutBackAndTheNodeIsNamed) {
  capture(graph_, {.enable_annotations = true}, [&] {
    launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
    const annotate scope("second");
    launch(x_.size(), Multiply{}, x_.data(), factor_, y_.data(), x_.size());
  });
  for (const backend::Call call : {backend::Call::graph_exec_node_set_params, backend::Call::graph_node_set_params}) {
    faulty().fail(call, ErrorCode::launch_failure, 1);  // the second one
    const std::string text = text_of<BackendError>([&] { graph_.set({{amount_, 5}, {factor_, 50}}); });
    EXPECT_TRUE(contains(text, backend::cuda_name(call)));
    EXPECT_TRUE(contains(text, "(node ")) << "one of them";
    EXPECT_TRUE(contains(text, "nothing has changed"));
    faulty().heal();
    EXPECT_EQ(graph_.get(amount_), 1);
    EXPECT_EQ(graph_.node("Add").arg<int>(1), 1);
    EXPECT_EQ(graph_.node("Multiply").arg<int>(1), 10);
    x_.write(std::vector<int>(4, 0));
    graph_.replay();
    EXPECT_EQ(first(y_), 10);
  }
  graph_.set({{amount_, 5}, {factor_, 50}});
  x_.write(std::vector<int>(4, 0));
  graph_.replay();
  EXPECT_EQ(first(y_), 250);
}

TEST_F(ParametersOfAFaultyDevice, ANodeOfAChildGraphThatIsNotChangedIsNamedAndTheOthersArePutBack) {
  const CUDAGraph inner = capture([&] { add(x_, 1); });
  const CUDAGraph child = capture([&] {
    add(y_, 1);
    add_child(inner);
  });
  capture(graph_, {.name = "parent", .enable_annotations = true}, [&] {
    add(x_, 10);
    const annotate scope("step");
    add_child(child);
  });
  const Parameter<int*> x = graph_.parameter(x_.data());
  faulty().fail(backend::Call::graph_exec_node_set_params, ErrorCode::invalid_value, 1);  // the one in the child
  const std::string text = text_of<BackendError>([&] { graph_.set(x, y_.data()); });
  EXPECT_TRUE(contains(text, "(node 1.1.0) in step"));
  EXPECT_TRUE(contains(text, "nothing has changed"));
  graph_.replay();
  EXPECT_EQ(first(x_), 11);
  EXPECT_EQ(first(y_), 1);
  EXPECT_EQ(graph_.get(x), x_.data());
}

TEST_F(ParametersOfAFaultyDevice, ValuesThatDoNotChangeMakeNoCall) {
  capture(graph_, [&] { launch(x_.size(), Add{}, x_.data(), amount_, x_.size()); });
  const Parameter<int*> x = graph_.parameter(x_.data());
  graph_.set({{amount_, 2}, {x, y_.data()}});
  faulty().fail_any(ErrorCode::launch_failure, 0);
  graph_.set({{amount_, 2}, {x, y_.data()}});
  EXPECT_FALSE(faulty().failed());
  EXPECT_THROW(graph_.set(amount_, 3), BackendError);
}

// On CUDA a change of the template is made in several calls, of which a later one can fail.

TEST_F(ParametersOfAFaultyDevice, AChangeThatTheTemplateRefusesIsPutBackThereToo) {
  capture(graph_, [&] { launch(x_.size(), Add{}, x_.data(), amount_, x_.size()); });
  faulty().forget_calls();
  faulty().fail(backend::Call::graph_node_set_params, ErrorCode::invalid_value);
  EXPECT_THROW(graph_.set(amount_, 3), BackendError);
  EXPECT_EQ(faulty().calls(backend::Call::graph_node_set_params), 2);
  EXPECT_EQ(faulty().calls(backend::Call::graph_exec_node_set_params), 2);
  EXPECT_EQ(graph_.node("Add").arg<int>(1), 1);
  graph_.set(amount_, 4);
  graph_.replay();
  EXPECT_EQ(first(x_), 4);
}

}  // namespace
}  // namespace reprise::graphs::test
