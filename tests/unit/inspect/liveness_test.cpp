// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>
#include <utility>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/liveness_fixture.h"

// A graph notices that memory of the allocator which it uses was freed.

namespace reprise::graphs::test {
namespace {

using backend::test::FaultyBackend;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class InputLiveness : public ::testing::Test {
 protected:
  Buffer<int> x_ = zeros(n);
  Buffer<int> y_ = zeros(n);
  CUDAGraph graph_;
};

TEST_F(InputLiveness, ReplaysWhileAllInputsAreThere) {
  capture(graph_, with_check(), [&] { add(x_); });
  Buffer<int> unrelated(n);
  unrelated.reset();
  for (int i = 1; i < 4; ++i) {
    graph_.replay();
    EXPECT_EQ(first(x_), i);
  }
  const std::vector<GraphInput> inputs = graph_.inputs();
  ASSERT_THAT(inputs, SizeIs(1));
  EXPECT_EQ(inputs[0].address, x_.data());
  EXPECT_EQ(inputs[0].bytes, 1536U);  // rounded
  EXPECT_THAT(inputs[0].nodes, ElementsAre("kernel reprise::graphs::test::Add (node 0)"));
  EXPECT_FALSE(inputs[0].retained);
}

TEST_F(InputLiveness, RefusesToReplayOnceAnInputWasFreedAndNamesIt) {
  capture(graph_, with_check(), [&] {
    add(y_);
    multiply(x_, 3, y_);
    add(x_);
  });
  graph_.replay();
  const void* const address = x_.data();
  x_.reset();
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].address, address);
  EXPECT_EQ(dead[0].bytes, 1536U);
  EXPECT_THAT(dead[0].nodes, ElementsAre("kernel reprise::graphs::test::Multiply (node 1)",
                                         "kernel reprise::graphs::test::Add (node 2)"));
  EXPECT_FALSE(dead[0].given_out_again);
}

TEST_F(InputLiveness, NamesTheAnnotationsOfTheNodes) {
  GraphOptions options = with_check();
  options.enable_annotations = true;
  capture(graph_, options, [&] {
    const annotate forward("forward");
    add(y_);
    const annotate layer({{"layer", "3"}});
    add(x_);
  });
  x_.reset();
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_THAT(dead[0].nodes, ElementsAre("kernel reprise::graphs::test::Add (node 1) in forward, layer=3"));
}

TEST_F(InputLiveness, NothingIsLaunchedByAReplayThatIsRefusedAndEachFurtherOneIsRefusedToo) {
  capture(graph_, with_check(), [&] {
    add(y_);
    add(x_);
  });
  x_.reset();
  for (int i = 0; i < 3; ++i) EXPECT_THROW(graph_.replay(), DeadInputError);
  EXPECT_EQ(first(y_), 0);
  EXPECT_THAT(graph_.inputs(), SizeIs(2));
  graph_.reset();
  capture(graph_, with_check(), [&] { add(y_); });
  graph_.replay();
  EXPECT_EQ(first(y_), 1);
}

TEST_F(InputLiveness, RefusesToReplayWhenTheMemoryWasGivenOutAgain) {
  capture(graph_, with_check(), [&] { add(x_); });
  const void* const address = x_.data();
  x_.reset();
  const Buffer<int> other(n);
  ASSERT_EQ(other.data(), address);
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_TRUE(dead[0].given_out_again);
  EXPECT_THAT(refusal(graph_).what(), HasSubstr("freed and allocated again; used by"));
}

TEST_F(InputLiveness, NamesSeveralDeadInputsAtOnce) {
  Buffer<int> alive = zeros(n);
  capture(graph_, with_check(), [&] {
    multiply(x_, 3, y_);
    add(alive);
  });
  const void* const both[] = {x_.data(), y_.data()};
  x_.reset();
  y_.reset();
  EXPECT_THAT(addresses(dead_inputs(graph_)), UnorderedElementsAre(both[0], both[1]));
}

TEST_F(InputLiveness, OtherGraphsThatUseTheMemoryNoticeToo) {
  CUDAGraph other;
  capture(graph_, with_check(), [&] { add(x_); });
  capture(other, with_check(), [&] { multiply(x_, 2, y_); });
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
  EXPECT_THROW(other.replay(), DeadInputError);
}

TEST_F(InputLiveness, MemoryOfTheCaptureItselfIsNoInput) {
  Buffer<int> result;
  capture(graph_, with_check(), [&] {
    Buffer<int> scratch(n);
    scratch.fill_bytes_async(0);
    result = Buffer<int>(n);
    multiply(scratch, 2, result);
  });
  EXPECT_THAT(graph_.inputs(), IsEmpty());
  result.reset();
  graph_.replay();
}

TEST_F(InputLiveness, ResultsOfAnotherGraphAreInputsUnlessTheyShareThePool) {
  CUDAGraph maker;
  Buffer<int> made;
  capture(maker, [&] {
    made = Buffer<int>(n);
    made.fill_bytes_async(0);
  });
  GraphOptions shared = with_check();
  shared.pool = maker.pool();
  CUDAGraph in_same_pool;
  capture(in_same_pool, shared, [&] { add(made); });
  capture(graph_, with_check(), [&] { add(made); });
  EXPECT_THAT(in_same_pool.inputs(), IsEmpty());
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(made.data()));
  made.reset();
  in_same_pool.replay();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(InputLiveness, APartOfABlockCountsForTheBlock) {
  capture(graph_, with_check(), [&] { launch(1, Add{}, x_.data() + n - 1, 1, std::size_t{1}); });
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(x_.data()));
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(InputLiveness, TheMemoryCountsAndNotTheObjectThatOwnsIt) {
  capture(graph_, with_check(), [&] { add(x_); });
  Buffer<int> moved = std::move(x_);
  graph_.replay();
  const auto shared = std::make_shared<Buffer<int>>(std::move(moved));
  graph_.replay();
  EXPECT_EQ(first(*shared), 2);
}

TEST_F(InputLiveness, FindsWhatCopiesAndSetsUse) {
  Buffer<int> z = zeros(n);
  capture(graph_, with_check(), [&] {
    copy_async(y_.data(), x_.data(), 4);
    fill_async(z.data(), 1, 4);
  });
  const void* const all[] = {x_.data(), y_.data(), z.data()};
  x_.reset();
  y_.reset();
  z.reset();
  for (const DeadInput& input : dead_inputs(graph_)) {
    if (input.address == all[0]) {
      EXPECT_THAT(input.nodes, ElementsAre("memcpy source (node 0)"));
    }
    if (input.address == all[1]) {
      EXPECT_THAT(input.nodes, ElementsAre("memcpy destination (node 0)"));
    }
    if (input.address == all[2]) {
      EXPECT_THAT(input.nodes, ElementsAre("memset destination (node 1)"));
    }
  }
  EXPECT_THAT(addresses(dead_inputs(graph_)), UnorderedElementsAre(all[0], all[1], all[2]));
}

TEST_F(InputLiveness, FindsWhatBatchesUse) {
  Buffer<int> z = zeros(n), filled = zeros(n);
  capture(graph_, with_check(), [&] {
    copy_batch_async(std::array{CopyOp{y_.data(), x_.data(), 4}, CopyOp{z.data(), x_.data() + 7, 8}});
    fill_batch_async(std::array{make_fill(filled.data(), 7, 32)});
  });
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(x_.data(), y_.data(), z.data(), filled.data()));
  const void* const address = z.data();
  z.reset();
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(addresses(dead), ElementsAre(address));
  EXPECT_THAT(dead[0].nodes, ElementsAre("kernel reprise_copy_batch (node 0)"));
}

TEST_F(InputLiveness, FindsMemoryOfAnotherDevice) {
  std::optional<Device> second;
  for (const Device& device : devices())
    if (device.type() == default_device().type() && device != default_device()) second = device;
  if (!second) GTEST_SKIP() << "there is one device here";
  const Stream far(*second);
  Buffer<int> there(n, far);
  there.fill_bytes_async(0, far);
  far.synchronize();
  capture(graph_, with_check(), [&] { copy_async(x_.data(), there.data(), 4); });
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(x_.data(), there.data()));
  there.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(InputLiveness, WhatIsFreedInTheCaptureIsDeadFromTheBeginning) {
  const void* const address = x_.data();
  capture(graph_, with_check(), [&] {
    add(x_);
    add(y_);
    x_.reset();
  });
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(InputLiveness, WhatIsFreedInACaptureThatDoesNotUseItIsNoMatter) {
  capture(graph_, with_check(), [&] {
    add(y_);
    x_.reset();
  });
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(y_.data()));
  graph_.replay();
  EXPECT_EQ(first(y_), 1);
}

TEST_F(InputLiveness, IsCheckedAfterTheGraphWasInstantiatedAgain) {
  CUDAGraph kept(KeepGraph::yes);
  capture(kept, with_check(), [&] { add(x_); });
  kept.instantiate();
  kept.replay();
  kept.instantiate();
  x_.reset();
  EXPECT_THROW(kept.replay(), DeadInputError);
}

TEST_F(InputLiveness, IsCheckedWithoutTheTemplateToo) {
  GraphOptions options = with_check();
  options.discard_template = true;
  capture(graph_, options, [&] { add(x_); });
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(InputLiveness, IsNotCheckedUnlessItWasAskedFor) {
  capture(graph_, [&] { add(y_); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.inputs(); }), "GraphOptions::check_input_liveness"));
  graph_.reset();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.inputs(); }), "CUDAGraph::inputs"));
}

TEST_F(InputLiveness, RandomNumbersAreNotSpentByAReplayThatIsRefused) {
  Generator generator(current_device(), 42);
  capture(graph_, with_check(), [&] {
    generator.philox_state(4);
    add(x_);
    add(y_);
  });
  EXPECT_THAT(addresses(graph_.inputs()), UnorderedElementsAre(x_.data(), y_.data()));
  graph_.replay();
  const GeneratorState before = generator.get_state();
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
  EXPECT_EQ(generator.get_state(), before);
}

TEST_F(InputLiveness, CostsNoCallOfTheRuntimePerReplay) {
  static auto& runtime = *new FaultyBackend(default_device().backend());  // devices live until the process ends
  const DeviceGuard there((Device(runtime)));
  const SideStream stream;
  Buffer<int> x = zeros(n), unrelated = zeros(n);
  capture(graph_, with_check(), [&] { add(x); });
  graph_.replay();
  runtime.forget_calls();
  for (int i = 0; i < 5; ++i) graph_.replay();
  EXPECT_EQ(runtime.calls(), 5);
  unrelated.reset();
  x_.reset();  // of another allocator
  runtime.forget_calls();
  graph_.replay();
  EXPECT_EQ(runtime.calls(), 1);
  stream.ref().synchronize();
}

TEST_F(InputLiveness, RefusedReplaysSayWhatToDo) {
  Buffer<int> z = zeros(n);
  capture(graph_, with_check(), [&] {
    multiply(x_, 2, y_);
    copy_async(z.data(), x_.data(), 4);
  });
  const std::string address = testing::PrintToString(static_cast<const void*>(x_.data()));
  x_.reset();
  EXPECT_EQ(std::string(refusal(graph_).what()),
            "CUDAGraph::replay: 1 of the 3 inputs of the graph is dead: it reads or writes memory that was freed. "
            "Nothing was launched. Keep the memory as long as the graph is replayed, let the graph keep it "
            "(GraphOptions::inputs.retain), or capture again.\n"
            "  1536 bytes at " +
                address +
                ": freed; used by kernel reprise::graphs::test::Multiply (node 0), memcpy source (node 1)\n"
                "  To see where it was allocated and freed: set REPRISE_MEMORY_STACKS=1, or call "
                "record_allocation_stacks(true) "
                "first, for memory of CachingAllocator.\n");
}

TEST_F(InputLiveness, ShowsTenDeadInputsAndCountsTheRest) {
  std::vector<Buffer<int>> many;
  for (int i = 0; i < 13; ++i) many.push_back(zeros(1));
  capture(graph_, with_check(), [&] {
    for (int i = 0; i < 20; ++i) add(many[0]);
    for (Buffer<int>& each : many) add(each);
  });
  many.clear();
  const DeadInputError error = refusal(graph_);
  EXPECT_THAT(error.inputs(), SizeIs(13));
  EXPECT_THAT(error.what(), HasSubstr("13 of the 13 inputs of the graph are dead"));
  EXPECT_THAT(error.what(), HasSubstr("\n  and 3 more\n"));
  EXPECT_THAT(error.what(), HasSubstr("Add (node 7) and 13 more\n"));
}

// Stacks are recorded as long as it lives.
struct WithStacks {
  WithStacks() { record_allocation_stacks(true); }
  ~WithStacks() { record_allocation_stacks(false); }
  WithStacks(const WithStacks&) = delete;
  WithStacks& operator=(const WithStacks&) = delete;
};

TEST_F(InputLiveness, KnowsTheStacksOfAllocationAndFreeIfTheyWereRecorded) {
  const WithStacks on;
  Buffer<int> x = zeros(n);
  capture(graph_, with_check(), [&] { add(x); });
  const std::vector<std::string> created = graph_.inputs().at(0).created;
  EXPECT_THAT(created, Not(IsEmpty()));
  x.reset();
  const DeadInputError error = refusal(graph_);
  ASSERT_THAT(error.inputs(), SizeIs(1));
  EXPECT_EQ(error.inputs()[0].created, created);
  EXPECT_THAT(error.inputs()[0].freed, Not(IsEmpty()));
  EXPECT_NE(error.inputs()[0].freed, created);
  EXPECT_THAT(error.what(), HasSubstr("\n    allocated by:\n      " + created.front() + "\n"));
  EXPECT_THAT(error.what(), HasSubstr("\n    freed by:\n      " + error.inputs()[0].freed.front() + "\n"));
}

TEST_F(InputLiveness, KnowsNoStackOfWhatWasAllocatedBeforeTheyWereRecorded) {
  capture(graph_, with_check(), [&] { add(x_); });
  const WithStacks on;
  x_.reset();
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_THAT(dead[0].created, IsEmpty());
  EXPECT_THAT(dead[0].freed, Not(IsEmpty()));
}

class LivenessOfUnknownParameters : public ::testing::Test {
 protected:
  static FaultyBackend& runtime() {
    static auto& runtime = *new FaultyBackend(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  ~LivenessOfUnknownParameters() override { runtime_.heal(); }

  FaultyBackend& runtime_ = runtime();
  const DeviceGuard guard_{Device(runtime_)};
  CUDAGraph graph_;
};

TEST_F(LivenessOfUnknownParameters, InputsAndReportNameTheNode) {
  const reprise::test::Warnings warnings;
  Buffer<int> x = zeros(n);
  runtime_.fail(backend::Call::function_param_info, ErrorCode::not_supported);
  capture(graph_, with_check(), [&] {
    copy_async(x.data() + 1, x.data(), sizeof(int));
    add(x);
  });
  const std::vector<GraphInput> inputs = graph_.inputs();
  ASSERT_THAT(inputs, SizeIs(2));
  EXPECT_EQ(inputs[0].address, x.data());
  EXPECT_THAT(inputs[0].not_checked, IsEmpty());
  EXPECT_EQ(inputs[1].address, nullptr);
  EXPECT_EQ(inputs[1].bytes, 0U);
  EXPECT_THAT(inputs[1].nodes, ElementsAre("kernel reprise::graphs::test::Add (node 1)"));
  EXPECT_THAT(inputs[1].not_checked, HasSubstr("cuFuncGetParamInfo failed with cudaErrorNotSupported"));
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_THAT(graph_.capture_report()->notes,
              ElementsAre(HasSubstr("the parameters of the kernel reprise::graphs::test::Add (node 1) are not known")));
  EXPECT_THAT(warnings.texts(), SizeIs(1)) << "nothing was left out of the graph";
  x.reset();
  EXPECT_THAT(refusal(graph_).what(), HasSubstr("1 of the 1 input of the graph is dead"));
}

}  // namespace
}  // namespace reprise::graphs::test
