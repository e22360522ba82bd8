// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/unit/inspect/compare_fixture.h"

// compare(): the first node at which a graph and its program differ.

namespace reprise::inspect::test {
namespace {

using graphs::test::capture_increment;
using graphs::test::contains;
using graphs::test::text_of;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Compare : public CompareTest {};

TEST_F(Compare, FindsNothingBetweenAGraphAndItsBody) {
  const Generator generator(current_device());
  const Stream side;
  Buffer<int> kept;
  const auto body = [&] {
    Buffer<int> scratch(100);
    scratch.fill_bytes_async(0);
    copy_async(scratch.data(), x_.data(), 16);
    kept = Buffer<int>(4);
    multiply(x_, 3, kept);
    launch_host([] {});
    generator.philox_state(1);
    side.wait(current_stream());
    add(y_, 2, side);
    current_stream().wait(side);
    add(x_);
    fill_async(y_.data(), 1, sizeof(int));
  };
  graph_ = capture(body);
  graph_.replay();
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(found.parameters, IsEmpty());
  EXPECT_THAT(found.notes, IsEmpty());
  EXPECT_EQ(found.nodes, graph_.node_count() - 1);  // what sets the seed is not executed
  EXPECT_GT(found.saved_bytes, 0U);
  EXPECT_THAT(found.str(), StartsWith("No difference was found.\n"));
}

TEST_F(Compare, NamesTheNodeOfAFrozenValueWithItsParameterAndItsAnnotation) {
  int amount = 5;
  const auto body = [&] {
    add(y_);
    const annotate scope("forward");
    add(x_, amount);
    add(x_, 1);
  };
  graph_ = capture({.enable_annotations = true}, body);
  amount = 6;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result);
  EXPECT_EQ(found.difference->first->index, 1U);
  EXPECT_EQ(found.difference->second->index, 1U);
  EXPECT_EQ(found.difference->first->annotation, (Annotation{{"name", "forward"}}));
  EXPECT_EQ(found.difference->address, x_.data());
  EXPECT_EQ(found.difference->second_address, x_.data());
  EXPECT_EQ(found.difference->bytes, 13U);  // to the last byte that differs
  EXPECT_THAT(found.difference->first_value, StartsWith("0x6 (6, "));
  EXPECT_THAT(found.difference->second_value, StartsWith("0x7 (7, "));
  ASSERT_THAT(found.difference->parameters, SizeIs(1));
  EXPECT_EQ(found.difference->parameters[0].field, "argument 1");
  EXPECT_EQ(found.nodes, 1U);
  EXPECT_THAT(found.str(), HasSubstr("Add (node 1) in forward: left other values in the 13 bytes from 0x"));
  EXPECT_THAT(found.str(), StartsWith("First difference: kernel "));
  EXPECT_THAT(found.str(), HasSubstr("Add (node 1) in forward: argument 1: 0x5 (5, "));
}

TEST_F(Compare, NamesTheNodeThatWasChangedToAWrongParameter) {
  const auto body = [&] {
    multiply(x_, 2, y_);
    add(y_);
  };
  graph_ = capture(body);
  graph_.node("Multiply").set_arg(1, 3);
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->first->index, 0U);
  EXPECT_EQ(found.difference->address, y_.data());
}

TEST_F(Compare, NamesTheNodeThatWasDisabled) {
  const auto body = [&] {
    add(y_);
    add(x_);
  };
  graph_ = capture(body);
  graph_.nodes()[1].set_enabled(false);
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->first->index, 1U);
}

TEST_F(Compare, NamesTheNodeThatReadsOtherMemory) {
  Buffer<int> other = zeros(4);
  const Buffer<int>* input = &x_;
  const auto body = [&] { multiply(*input, 2, y_); };
  graph_ = capture(body);
  input = &other;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result);
  EXPECT_EQ(found.difference->address, y_.data());
  ASSERT_THAT(found.difference->parameters, SizeIs(1));
  EXPECT_EQ(found.difference->parameters[0].field, "argument 0");
}

TEST_F(Compare, AParameterThatMakesNoDifferenceIsListedOnly) {
  Buffer<int> copy(4);
  copy.write(std::vector<int>{1, 2, 3, 4});
  const Buffer<int>* input = &x_;
  const auto body = [&] { multiply(*input, 2, y_); };
  graph_ = capture(body);
  input = &copy;
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same());
  EXPECT_THAT(found.parameters, SizeIs(1));
  EXPECT_THAT(found.str(), HasSubstr("without a difference in what was written"));
}

TEST_F(Compare, NamesACopyFromPinnedMemoryThatIsGone) {
  const std::size_t values = 4 << 20;  // large: unmapped at once
  Buffer<int> to(values);
  auto from = std::make_unique<HostBuffer<int>>(values);
  const auto body = [&] { copy_async(to.data(), from->data(), values * sizeof(int)); };
  graph_ = capture(body);
  const int* const stale = from->data();
  auto next = std::make_unique<HostBuffer<int>>(values);
  from = std::move(next);
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::stale_pointer);
  EXPECT_EQ(found.difference->address, stale);
}

TEST_F(Compare, NamesTheNodeThatUsesFreedMemoryAndDoesNotExecuteIt) {
  auto input = std::make_unique<Buffer<int>>(zeros(4));
  const auto body = [&] {
    add(y_);
    multiply(*input, 2, y_);
  };
  graph_ = capture(body);
  const int* const stale = input->data();
  auto next = std::make_unique<Buffer<int>>(zeros(4));
  input = std::move(next);
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::stale_pointer);
  EXPECT_EQ(found.difference->first->index, 1U);
  EXPECT_EQ(found.difference->address, stale);
  EXPECT_EQ(found.difference->second_address, input->data());
  EXPECT_THAT(found.str(), HasSubstr("Multiply (node 1): uses memory that was freed, 0x"));
}

TEST_F(Compare, NamesTheNodeThatWritesElsewhere) {
  Buffer<int>* output = &x_;
  const auto body = [&] {
    add(x_);
    copy_async(output->data(), y_.data() + 2, 8);
  };
  graph_ = capture(body);
  output = &y_;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::destination);
  EXPECT_EQ(found.difference->first->index, 1U);
  EXPECT_EQ(found.difference->address, x_.data());
  EXPECT_EQ(found.difference->second_address, y_.data());
  EXPECT_EQ(found.difference->bytes, 8U);
  EXPECT_THAT(found.str(), HasSubstr("writes 8 bytes at 0x"));
}

TEST_F(Compare, NamesTheNodeThatOneOfThemLacks) {
  bool more = false;
  const auto body = [&] {
    add(x_);
    if (more) y_.fill_bytes_async(0);
    add(x_);
  };
  graph_ = capture(body);
  more = true;
  const Comparison lacking = compare_now(body);
  ASSERT_TRUE(lacking.difference) << lacking.str();
  EXPECT_EQ(lacking.difference->kind, FirstDifferenceKind::node);
  EXPECT_FALSE(lacking.difference->first);
  EXPECT_EQ(lacking.difference->second->index, 1U);
  EXPECT_THAT(lacking.str(), HasSubstr("memset (node 1): only in the new capture"));
  graph_ = capture(body);
  more = false;
  const Comparison too_many = compare_now(body);
  ASSERT_TRUE(too_many.difference) << too_many.str();
  EXPECT_EQ(too_many.difference->first->index, 1U);
  EXPECT_THAT(too_many.str(), HasSubstr("memset (node 1): only in the graph"));
}

TEST_F(Compare, ADifferenceBeforeAMissingNodeComesFirst) {
  int round = 0;
  const auto body = [&] {
    add(x_, round);
    if (round > 0) add(y_), y_.fill_bytes_async(0);
  };
  graph_ = capture(body);
  round = 1;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::result);
  EXPECT_EQ(found.difference->first->index, 0U);
}

TEST_F(Compare, NamesAWorkOfAnotherType) {
  bool set = false;
  const auto body = [&] {
    if (set)
      x_.fill_bytes_async(0);
    else
      copy_async(x_.data(), y_.data(), 16);
  };
  graph_ = capture(body);
  set = true;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::node);
  EXPECT_THAT(found.str(),
              HasSubstr("memcpy (node 0): differs in type or function from the memset (node 0) in the new capture"));
}

TEST_F(Compare, BeginsWithTheSameMemoryOfTheCaptures) {
  Buffer<int> state;
  const auto body = [&] {
    state = Buffer<int>(4);
    add(state);  // what the last replay left
    copy_async(x_.data(), state.data(), 16);
  };
  graph_ = capture(body);
  state.fill_bytes_async(3);
  graph_.replay();
  const Comparison found = compare_now(body);
  EXPECT_TRUE(found.same()) << found.str();
}

TEST_F(Compare, PointersInMemoryAreTheSameWhereTheyLeadToTheSameAllocation) {
  std::size_t offset = 0;
  const auto body = [&] {
    Buffer<int> target(256);
    Buffer<int*> table(4);
    table.fill_bytes_async(0);
    launch(1, Store{}, table.data() + 1, target.data() + offset);
  };
  graph_ = capture(body);
  const Comparison same = compare_now(body);
  EXPECT_TRUE(same.same()) << same.str();
  offset = 1;
  const Comparison other = compare_now(body);
  ASSERT_TRUE(other.difference) << other.str();
  EXPECT_EQ(other.difference->first->index, 1U);
  EXPECT_NE(other.difference->address, other.difference->second_address);
}

TEST_F(Compare, CopiesToPageableMemoryAreComparedAndRestored) {
  std::vector<int> host(4, 9);
  int amount = 1;
  const auto body = [&] {
    add(x_, amount);
    copy_async(host.data(), x_.data(), 16);
  };
  graph_ = capture(body);
  EXPECT_TRUE(compare_now(body).same());
  EXPECT_THAT(host, ElementsAre(9, 9, 9, 9));
  graph_.nodes()[1].set_params(MemcpyNodeParams{host.data(), x_.data() + 1, 8});
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference);
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::destination);
  EXPECT_THAT(host, ElementsAre(9, 9, 9, 9));
}

TEST_F(Compare, CountsPageableMemoryThatBecamePinnedAsFreed) {
  const std::vector<int> pageable(4, 9);
  HostBuffer<int> pinned(4);
  for (int& each : pinned) each = 9;
  const int* from = pageable.data();
  const auto body = [&] { copy_async(x_.data(), from, 16); };
  graph_ = capture(body);
  EXPECT_TRUE(compare_now(body).same());
  from = pinned.data();
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference);
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::stale_pointer);
  EXPECT_EQ(found.difference->address, pageable.data());
  graph_ = capture(body);
  from = pageable.data();
  EXPECT_TRUE(compare_now(body).same()) << "the other way round, pinned memory is in use";
}

TEST_F(Compare, NamesANodeThatLeavesOtherValuesEachTime) {
  HostBuffer<int> count(1);
  count[0] = 0;
  const auto body = [&] {
    add(x_);
    launch_host([&] { ++count[0]; });
    copy_async(y_.data(), count.data(), sizeof(int));
  };
  graph_ = capture(body);
  EXPECT_TRUE(compare_now(body).same()) << "what is in pinned memory is restored";
  int calls = 0;
  const auto varying = [&] {
    add(x_);
    launch_host([&] { count[0] = ++calls; });
    copy_async(y_.data(), count.data(), sizeof(int));
  };
  graph_ = capture(varying);
  const Comparison found = compare_now(varying);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->kind, FirstDifferenceKind::not_repeatable);
  EXPECT_EQ(found.difference->first->index, 1U);
  EXPECT_THAT(found.str(), HasSubstr("host (node 1): left other bytes when it was executed again"));
}

TEST_F(Compare, NamesNodesOfChildGraphs) {
  CUDAGraph child;
  int amount = 1;
  const auto of_child = [&] {
    x_.fill_bytes_async(0);
    add(x_, amount);
  };
  child = capture(of_child);
  const auto body = [&] {
    add(y_);
    add_child(child);
    add(x_);
  };
  graph_ = capture(body);
  EXPECT_TRUE(compare_now(body).same());
  amount = 2;
  child = capture(of_child);
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->first->number, "1.1");
  EXPECT_EQ(found.nodes, 2U);
}

TEST_F(Compare, ExecutesConditionalNodesAsAWhole) {
  Buffer<std::uint32_t> flag(1), left(1);
  flag.write(std::vector<std::uint32_t>{1});
  left.write(std::vector<std::uint32_t>{3});
  int amount = 1;
  const auto body = [&] {
    add(y_);
    if_else(
        flag.data(),
        [&] {
          add(x_, amount);
          while_(left.data(),
                 [&] {
                   add(x_, 10);
                   launch(1, Add{}, reinterpret_cast<int*>(left.data()), -1, 1);
                 },
                 {.max_iterations = 5});
        },
        [&] { add(x_, 100); });
    add(x_, 1000);
  };
  graph_ = capture(body);
  const Comparison same = compare_now(body);
  EXPECT_TRUE(same.same()) << same.str();
  amount = 2;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->first->name, "conditional");
  EXPECT_EQ(found.difference->address, x_.data());
  EXPECT_THAT(found.difference->first_value, StartsWith("0x20 (32, ")) << "1 + 1 + 3 * 10";
  ASSERT_THAT(found.difference->parameters, SizeIs(1));
  EXPECT_EQ(found.difference->parameters[0].field, "argument 1");
}

TEST_F(Compare, ExecutesChildGraphsInBodies) {
  Buffer<std::uint32_t> flag(1);
  flag.write(std::vector<std::uint32_t>{1});
  int amount = 1;
  const CUDAGraph inmost = capture([&] { add(x_, 10); });
  CUDAGraph child;
  const auto of_child = [&] {
    fill_async(x_.data(), 0, x_.size_bytes());
    add_child(inmost);
    add(x_, amount);
  };
  const auto body = [&] {
    if_(flag.data(), [&] {
      if_(flag.data(), [&] { add_child(child); });
      add(x_, 100);
    });
  };
  child = capture(of_child);
  graph_ = capture(body);
  const Comparison same = compare_now(body);
  EXPECT_TRUE(same.same()) << same.str();
  amount = 2;
  child = capture(of_child);
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_THAT(found.difference->first_value, StartsWith("0x6f (111, ")) << found.str();
  EXPECT_THAT(found.difference->second_value, StartsWith("0x70 (112, ")) << found.str();
}

// What the nodes of such a body write is known, and so is that of the kernels that set its condition.
TEST_F(Compare, FindsNothingInALoopOfCopiesAndSets) {
  Buffer<std::uint32_t> flag(1);
  Loop loop;
  const auto body = [&] {
    fill_async(flag.data(), 1, sizeof(std::uint32_t));
    loop = while_(flag.data(), [&] {
      const annotate scope("iteration");
      copy_async(y_.data(), x_.data(), 16);
      fill_async(flag.data(), 0, sizeof(std::uint32_t));
    });
    add(y_);
  };
  graph_ = capture({.progress_marks = true}, body);
  graph_.replay();
  for (int round = 0; round < 2; ++round) {
    const Comparison found = compare_now(body);
    EXPECT_TRUE(found.same()) << found.str();
    EXPECT_THAT(found.parameters, IsEmpty());
    graph_.recapture(body);
    graph_.replay();
  }
  EXPECT_EQ(loop.last_run().iterations, 1U);
  EXPECT_EQ(graph_.last_mark(), (Annotation{{"name", "iteration"}}));
}

TEST_F(Compare, FindsNothingInAChildThatDrawsAndWasCapturedAgain) {
  const Generator generator(current_device());
  std::vector<Buffer<int>> kept;  // of the captures of the child
  const auto of_child = [&] {
    const annotate scope("child");
    launch(4, SeedAndOffset{}, generator.philox_state(4), x_.data(), std::size_t{4});
    kept.emplace_back(4);
    multiply(x_, 3, kept.back());
    copy_async(kept.back().data(), x_.data(), 16);
  };
  const GraphOptions marked{.progress_marks = true};
  CUDAGraph child = capture(marked, of_child);
  const auto body = [&] {
    generator.philox_state(1);
    add_child(child);
    add(y_);
  };
  graph_ = capture(marked, body);
  graph_.replay();
  for (const bool anew : {false, true}) {
    if (anew)
      child = capture(marked, of_child);
    else
      child.recapture(of_child);
    const Comparison found = compare_now(body);
    EXPECT_TRUE(found.same()) << found.str();
    EXPECT_THAT(found.parameters, IsEmpty()) << found.str();
    EXPECT_THAT(diff(graph_, capture(marked, body)), IsEmpty());
    EXPECT_THAT(graph_.recapture(body).differences, IsEmpty());
    graph_.replay();
  }
}

TEST_F(Compare, DrawsTheSameRandomNumbersInBothAndLeavesTheGenerator) {
  Generator generator(current_device());
  std::uint64_t numbers = 4;
  const auto body = [&] {
    generator.philox_state(numbers);
    launch(4, SeedAndOffset{}, generator.philox_state(4), x_.data(), std::size_t{4});
  };
  graph_ = capture(body);
  graph_.replay();
  const GeneratorState before = generator.get_state();
  const Comparison same = compare_now(body);
  EXPECT_TRUE(same.same()) << same.str();
  EXPECT_EQ(generator.get_state(), before);
  numbers = 8;
  const Comparison found = compare_now(body);
  ASSERT_TRUE(found.difference) << found.str();
  EXPECT_EQ(found.difference->address, x_.data());
}

TEST_F(Compare, LeavesTheGraphAndItsReplaysAlone) {
  const auto body = [&] { add(x_); };
  graph_ = capture({.keep_graph = KeepGraph::yes}, body);
  EXPECT_TRUE(compare_now(body).same());
  graph_.replay();
  EXPECT_THAT(graphs::test::read(x_), ElementsAre(2, 3, 4, 5));
  EXPECT_TRUE(compare_now(body).same()) << "with an executable, too";
  graph_.replay();
  EXPECT_THAT(graphs::test::read(x_), ElementsAre(3, 4, 5, 6));
}

TEST_F(Compare, CapturesOnTheStreamThatItIsPassed) {
  const Stream stream;
  const auto body = [&] { add(x_, 1, stream); };
  graph_ = capture({.stream = stream.ref()}, body);
  EXPECT_TRUE(compare(graph_, body, stream.ref()).same());
}

TEST_F(Compare, WaitsForWorkThatUsesTheMemory) {
  const auto body = [&] { multiply(x_, 2, y_); };
  graph_ = capture(body);
  const Stream other;
  add(x_, 10, other);
  const Comparison found = compare(graph_, body);
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_THAT(graphs::test::read(x_), ElementsAre(11, 12, 13, 14));
}

TEST_F(Compare, RefusesNodesThatAllocateInTheOrderOfAStream) {
  const auto body = [&] {
    add(x_);
    void* const memory = allocate_async(64, current_stream());
    fill_async(memory, 0, 64);
    free_async(memory, current_stream());
  };
  graph_ = capture(body);
  const auto text = text_of<UsageError>([&] { compare_now(body); });
  EXPECT_TRUE(contains(text, "(node 1) allocates or frees memory in the order of a stream"));
  EXPECT_TRUE(contains(text, "Nothing was executed."));
}

TEST_F(Compare, AnExceptionOfTheBodyPropagatesAndChangesNothing) {
  graph_ = capture([&] { add(x_); });
  EXPECT_THROW(compare_now([&] {
                 add(x_);
                 throw std::runtime_error("the body failed");
               }),
               std::runtime_error);
  EXPECT_TRUE(compare_now([&] { add(x_); }).same());
}

TEST_F(Compare, TextsWithoutContentAreText) {
  EXPECT_THAT(Comparison{}.str(), StartsWith("No difference was found.\n"));
  for (const auto kind :
       {FirstDifferenceKind::node, FirstDifferenceKind::stale_pointer, FirstDifferenceKind::destination,
        FirstDifferenceKind::result, FirstDifferenceKind::not_repeatable})
    EXPECT_THAT(FirstDifference{.kind = kind}.str(), Not(IsEmpty()));
}

}  // namespace
}  // namespace reprise::inspect::test
