// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "graph/parameters/parameters.h"
#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Parameters of graphs: values that are set before a replay.

namespace reprise::graphs::test {
namespace {

/// Two addresses in one argument.
struct Pair {
  const int* from;
  int* to;
};

struct CopyPair {
  REPRISE_KERNEL void operator()(Thread, Pair pair) const { *pair.to = *pair.from; }
};

class ParametersOfGraphs : public ::testing::TestWithParam<KeepGraph> {
 protected:
  /// x += amount, y = factor * x
  void capture_both() {
    capture(graph_, [&] {
      launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
      launch(x_.size(), Multiply{}, x_.data(), factor_, y_.data(), x_.size());
    });
  }
  int replayed(const Buffer<int>& buffer) {
    graph_.replay();
    return first(buffer);
  }

  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4), z_ = zeros(4);
  const Parameter<int> amount_{1}, factor_{10};
  CUDAGraph graph_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kept, ParametersOfGraphs, ::testing::Values(KeepGraph::no, KeepGraph::yes),
                         [](const auto& info) {
                           return info.param == KeepGraph::yes ? std::string("yes") : std::string("no");
                         });

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

TEST_P(ParametersOfGraphs, TheUsesOfAnAddressAreFoundInKernelsCopiesAndSets) {
  capture(graph_, [&] {
    fill_async(x_.data(), 0, x_.size_bytes());
    add(x_);
    launch(LaunchConfig{}, CopyPair{}, Pair{x_.data(), y_.data()});
    copy_async(z_.data(), x_.data(), sizeof(int));
  });
  Buffer<int> other = zeros(4);
  other.write(std::vector<int>{40, 41, 42, 43});
  const Parameter<int*> x = graph_.parameter(x_.data());
  const Parameter<int*> y = graph_.parameter(y_.data());
  graph_.set({{x, other.data()}, {y, z_.data() + 1}});
  graph_.replay();
  EXPECT_EQ(read(other), std::vector<int>(4, 1));
  EXPECT_EQ(read(z_), (std::vector<int>{1, 1, 0, 0}));
  EXPECT_EQ(read(x_), std::vector<int>(4, 0));
  EXPECT_EQ(read(y_), std::vector<int>(4, 0));
  EXPECT_EQ(graph_.get(x), other.data());
}

TEST_P(ParametersOfGraphs, TheUsesOfAnAddressAreFoundInChildGraphsToo) {
  const CUDAGraph inner = capture([&] { add(x_, 1); });
  const CUDAGraph child = capture([&] {
    add_child(inner);
    add(x_, 10);
  });
  capture(graph_, [&] {
    add_child(child);
    add(x_, 100);
    add_child(child);
  });
  const Parameter<int*> x = graph_.parameter(x_.data());
  EXPECT_EQ(replayed(x_), 122);
  graph_.set(x, y_.data());
  EXPECT_EQ(replayed(y_), 122);
  EXPECT_EQ(first(x_), 122);
  EXPECT_EQ(graph_.get(x), y_.data());
  graph_.set(x, z_.data());
  EXPECT_EQ(replayed(z_), 122);
  EXPECT_EQ(first(y_), 122);
  CUDAGraph again = capture([&] { add_child(child); });
  again.replay();
  EXPECT_EQ(first(x_), 133) << "children are copies";
}

TEST_P(ParametersOfGraphs, OfChildGraphsAreThoseOfTheOtherGraphAfterAnUpdate) {
  const CUDAGraph child = capture([&] { add(x_, 1); });
  capture(graph_, [&] { add_child(child); });
  graph_.replay();
  CUDAGraph other(GetParam());
  capture(other, [&] { add_child(child); });
  const Parameter<int*> x = other.parameter(x_.data());
  graph_.update(other);
  graph_.set(x, y_.data());
  EXPECT_EQ(replayed(y_), 1);
  EXPECT_EQ(first(x_), 1);
  EXPECT_EQ(other.get(x), x_.data()) << "that graph is its own";
}

TEST_P(ParametersOfGraphs, InputsOfChildGraphsFollow) {
  const CUDAGraph child = capture([&] { add(x_, 1); });
  capture(graph_, {.check_input_liveness = true}, [&] { add_child(child); });
  graph_.set(graph_.parameter(x_.data()), y_.data());
  ASSERT_EQ(graph_.inputs().size(), 1U);
  EXPECT_EQ(graph_.inputs()[0].address, y_.data());
  x_.reset();
  EXPECT_EQ(replayed(y_), 1);
}

TEST_P(ParametersOfGraphs, AnAddressThatABatchInAChildUsesIsRefusedWithTheNode) {
  const CUDAGraph child = capture([&] {
    add(y_);
    copy_batch_async(std::array{CopyOp{y_.data(), x_.data(), sizeof(int)}});
  });
  capture(graph_, [&] {
    add(z_);
    add_child(child);
  });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.parameter(x_.data()); }), "(node 1.1)"));
}

TEST_P(ParametersOfGraphs, AnAddressAloneLeavesThoseBehindIt) {
  capture(graph_, [&] {
    launch(1, Add{}, x_.data(), 1, std::size_t{1});
    launch(1, Add{}, x_.data() + 2, 1, std::size_t{1});
  });
  graph_.set(graph_.parameter(x_.data()), y_.data());
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(read(y_), (std::vector<int>{1, 0, 0, 0}));
}

TEST_P(ParametersOfGraphs, OfAWholeBufferItsPartsMoveAlong) {
  capture(graph_, [&] {
    launch(1, Add{}, x_.data() + 1, 1, std::size_t{1});
    launch(1, Add{}, x_.data() + 3, 2, std::size_t{1});
    launch(1, Add{}, y_.data(), 3, std::size_t{1});
  });
  const Parameter<int*> all = graph_.parameter(x_.data(), x_.size());
  graph_.set(all, z_.data());
  EXPECT_EQ(graph_.get(all), z_.data());
  graph_.replay();
  EXPECT_EQ(read(z_), (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(read(x_), std::vector<int>(4, 0));
  EXPECT_EQ(first(y_), 3);
  graph_.set(all, x_.data());
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{0, 1, 0, 2}));
}

TEST_P(ParametersOfGraphs, AnAddressCanBeNamedInTheCapture) {
  std::optional<Parameter<int*>> target;
  {
    reprise::graph scope(graph_);
    target = graph_.parameter(x_.data());
    launch(x_.size(), Add{}, *target, 1, x_.size());
    fill_async(x_.data(), 0, x_.size_bytes());
  }
  graph_.set(*target, z_.data());
  z_.write(std::vector<int>{7, 7, 7, 7});
  x_.write(std::vector<int>{7, 7, 7, 7});
  graph_.replay();
  EXPECT_EQ(first(z_), 0) << "set after the addition";
  EXPECT_EQ(first(x_), 7);
}

TEST_P(ParametersOfGraphs, AnAddressThatNothingUsesIsRefused) {
  capture_both();
  const std::string text = text_of<UsageError>([&] { (void)graph_.parameter(z_.data()); });
  EXPECT_TRUE(contains(text, "which none of its nodes has as an argument"));
  EXPECT_THROW((void)graph_.parameter(static_cast<int*>(nullptr)), UsageError);
  EXPECT_THROW((void)graph_.parameter(x_.data() + 1), UsageError);
  EXPECT_THROW((void)graph_.parameter(x_.data(), SIZE_MAX), UsageError);
  EXPECT_THROW(capture(graph_, [&] {}), UsageError);
  graph_.reset();
  EXPECT_THROW(capture(graph_,
                       [&] {
                         (void)graph_.parameter(z_.data());
                         add(x_);
                       }),
               UsageError);
  EXPECT_EQ(first(x_), 0);
  capture_both();
  EXPECT_EQ(replayed(y_), 10);
}

TEST_P(ParametersOfGraphs, AnAddressThatABatchUsesIsRefused) {
  capture(graph_, [&] {
    copy_batch_async(std::array{CopyOp{y_.data(), x_.data(), sizeof(int)}});
    add(x_);
  });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.parameter(x_.data()); }), "the library's own"));
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
}

TEST_P(ParametersOfGraphs, AddressesThatCudaDoesNotTakeAreRefusedAndAllValuesStay) {
  HostBuffer<int> pinned(4);
  capture(graph_, [&] {
    launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
    copy_async(y_.data(), x_.data(), x_.size_bytes());
  });
  if (GetParam() == KeepGraph::yes) graph_.instantiate();
  const Parameter<int*> x = graph_.parameter(x_.data());
  const std::string text = text_of<UsageError>([&] { graph_.set({{amount_, 5}, {x, pinned.data()}}); });
  EXPECT_TRUE(contains(text, "CUDAGraph::set, memcpy (node 1)"));
  EXPECT_TRUE(contains(text, "same context and kind of memory"));
  EXPECT_EQ(graph_.get(amount_), 1);
  EXPECT_EQ(graph_.get(x), x_.data());
  EXPECT_EQ(replayed(y_), 1);
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
  reprise::test::Gate gate;
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

TEST_P(ParametersOfGraphs, MayBeNamedByAnyThreadWhileOthersReplay) {
  capture_both();
  const StreamRef stream = side_.ref();
  std::array<std::optional<Parameter<int*>>, 4> named;
  std::vector<std::thread> threads;
  for (auto& each : named)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) each.emplace(graph_.parameter(y_.data()));
    });
  for (int i = 0; i < 50; ++i) graph_.replay(stream);
  for (std::thread& each : threads) each.join();
  for (const auto& each : named) EXPECT_EQ(graph_.get(*each), y_.data());
  graph_.set(*named[3], z_.data());
  graph_.replay(stream);
  stream.synchronize();
  EXPECT_EQ(first(y_), 500);
  EXPECT_EQ(first(z_), 510);
}

TEST_P(ParametersOfGraphs, OfANodeThatWasRemovedAreSetInTheOthers) {
  if (GetParam() == KeepGraph::no) return;
  capture(graph_, [&] {
    launch(x_.size(), Add{}, x_.data(), amount_, x_.size());
    launch(x_.size(), Add{}, y_.data(), amount_, x_.size());
  });
  backend::Checked(default_device().backend()).graph_destroy_node(graph_.nodes()[0].native());
  graph_.set(amount_, 4);
  EXPECT_EQ(replayed(y_), 4);
  EXPECT_EQ(first(x_), 0);
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

// The entries themselves, without a graph.
class EntriesOfParameters : public ::testing::Test {
 protected:
  using Use = Parameters::Use;
  static Use use(std::uintptr_t node, std::size_t offset, std::size_t bytes = sizeof(int)) {
    auto* const handle = reinterpret_cast<GraphNodeHandle>(node);
    return {handle, handle, {NodePlace::Of::arguments, offset, bytes}};
  }
  void add(const Parameter<int>& parameter, std::vector<Use> uses) {
    entries_.add(parameter.key(), std::as_bytes(std::span(&parameter.initial(), 1)), std::move(uses));
  }
  bool has(const Parameter<int>& parameter, int value) {
    const ParameterValue wanted(parameter, value);
    return entries_.have("", {&wanted, 1});
  }
  void set(std::initializer_list<ParameterValue> values) { entries_.were_set({values.begin(), values.size()}); }

  Parameters entries_;
};

TEST_F(EntriesOfParameters, ThatNothingCanSetAnyMoreAreDropped) {
  const Parameter<int> stays(1);
  add(stays, {use(1, 0)});
  for (int i = 0; i < 1000; ++i) {
    add(Parameter<int>(i), {use(1, 0), use(2, 8)});
    ASSERT_LE(entries_.size(), 17U);
  }
  const std::vector<Parameter<int>> kept = [&] {
    std::vector<Parameter<int>> made;
    for (int i = 0; i < 100; ++i) add(made.emplace_back(i), {use(3, 0)});
    return made;
  }();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(has(kept[static_cast<std::size_t>(i)], i));
  EXPECT_TRUE(has(stays, 1));
  EXPECT_EQ(entries_.find("", &stays.initial()).uses.size(), 1U);
}

TEST_F(EntriesOfParameters, ThatShareAPlaceMakeNoOtherOneUnknown) {
  const Parameter<int> alone(1), one(2), same(2);
  add(alone, {use(1, 0)});
  add(one, {use(1, 8), use(2, 0)});
  add(same, {use(2, 0)});
  set({{one, 5}});
  EXPECT_TRUE(has(alone, 1));
  EXPECT_TRUE(has(one, 5));
  EXPECT_FALSE(has(same, 2));
  set({{same, 7}});
  EXPECT_TRUE(has(same, 7));
  EXPECT_FALSE(has(one, 5));
  set({{one, 6}, {same, 6}});
  EXPECT_FALSE(has(one, 6));
  EXPECT_FALSE(has(same, 6));
  EXPECT_TRUE(has(alone, 1));
}

TEST_F(EntriesOfParameters, OfAPartOfAnArgumentShareItToo) {
  const Parameter<int> whole(1), part(2);
  add(whole, {use(1, 0, 16)});
  add(part, {use(1, 8, 8)});
  set({{part, 3}});
  EXPECT_TRUE(has(part, 3));
  EXPECT_FALSE(has(whole, 1));
}

TEST_F(EntriesOfParameters, EachPlaceIsThereOnce) {
  const Parameter<int> one(1);
  for (int i = 0; i < 3; ++i) add(one, {use(1, 0), use(1, 4)});
  EXPECT_EQ(entries_.find("", &one.initial()).uses.size(), 2U);
  set({{one, 4}});
  EXPECT_TRUE(has(one, 4));
  entries_.node_changed(reinterpret_cast<GraphNodeHandle>(std::uintptr_t{1}));
  EXPECT_FALSE(has(one, 4));
}

TEST_P(ParametersOfGraphs, OfAnAddressThatAreNotKeptCanBeMadeAtEachStep) {
  capture(graph_, [&] { add(x_); });
  int* now = x_.data();
  int* next = y_.data();
  for (int i = 0; i < 100; ++i) {
    graph_.set(graph_.parameter(now), next);
    std::swap(now, next);
    graph_.replay();
  }
  EXPECT_EQ(first(x_), 50);
  EXPECT_EQ(first(y_), 50);
}

}  // namespace
}  // namespace reprise::graphs::test
