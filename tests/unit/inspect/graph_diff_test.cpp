// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// diff(): what differs between two captured graphs, and what does not.

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class GraphDiff : public ::testing::Test {
 protected:
  template <class First, class Second>
  std::vector<GraphDifference> compare(const First& first, const Second& second, const GraphOptions& options = {}) {
    first_ = capture(options, first);
    second_ = capture(options, second);
    return diff(first_, second_);
  }
  static std::vector<DifferenceKind> kinds(const std::vector<GraphDifference>& differences) {
    std::vector<DifferenceKind> found;
    for (const GraphDifference& each : differences) found.push_back(each.kind);
    return found;
  }

  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4);
  CUDAGraph first_, second_;
};

TEST_F(GraphDiff, NamesNodeArgumentAndBothValues) {
  const auto differences = compare([&] { add(x_), add(x_, 5); }, [&] { add(x_), add(x_, 6); });
  ASSERT_THAT(differences, SizeIs(1));
  const GraphDifference& found = differences[0];
  EXPECT_EQ(found.kind, DifferenceKind::parameter);
  EXPECT_EQ(found.first->index, 1U);
  EXPECT_EQ(found.second->index, 1U);
  EXPECT_THAT(found.second->name, HasSubstr("Add"));
  EXPECT_EQ(found.field, "argument 1");
  EXPECT_EQ(found.parameter, 1U);
  EXPECT_THAT(found.first_value, StartsWith("0x5 (5, "));
  EXPECT_THAT(found.second_value, StartsWith("0x6 (6, "));
  EXPECT_THAT(found.str(), HasSubstr("Add (node 1): argument 1: 0x5 (5, "));
  EXPECT_THAT(found.str(), HasSubstr(", then 0x6 (6, "));
}

TEST_F(GraphDiff, FindsAnotherKindOfConditionalNode) {
  const Buffer<std::uint32_t> condition(1);
  const auto one = [&] { add(x_); };
  const auto other = [&] { add(x_, 2); };
  const auto found = compare([&] { if_else(condition.data(), one, other); },
                             [&] {
                               switch_(condition.data(), {one, other});
                             });
  ASSERT_THAT(kinds(found), ElementsAre(DifferenceKind::node_type));
  EXPECT_EQ(found[0].field, "type");
  EXPECT_EQ(found[0].first_value, "conditional (if)");
  EXPECT_EQ(found[0].second_value, "conditional (switch)");
  EXPECT_THAT(compare([&] { if_(condition.data(), one); }, [&] { if_(condition.data(), one); }), IsEmpty());
}

TEST_F(GraphDiff, NamesConditionAndLimitOfControlFlowAtItsNode) {
  const Buffer<std::uint32_t> condition(1), other(1);
  const auto loop = [&](const Buffer<std::uint32_t>& flag, std::uint32_t limit) {
    add(x_);
    if_(condition.data(), [&] { while_(flag.data(), [&] { add(x_, 2); }, {.max_iterations = limit}); });
  };
  const auto limits = compare([&] { loop(condition, 10); }, [&] { loop(condition, 20); });
  ASSERT_THAT(kinds(limits), ElementsAre(DifferenceKind::parameter));
  EXPECT_EQ(limits[0].str(), "conditional (node 2.0.1): max_iterations: 10, then 20");
  EXPECT_EQ(limits[0].parameter, std::nullopt);
  const auto flags = compare([&] { loop(condition, 10); }, [&] { loop(other, 10); });
  ASSERT_THAT(kinds(flags), ElementsAre(DifferenceKind::parameter));
  EXPECT_THAT(flags[0].str(), StartsWith("conditional (node 2.0.1): condition: 0x"));
  EXPECT_THAT(compare([&] { loop(condition, 10); }, [&] { loop(condition, 10); }), IsEmpty());
}

TEST_F(GraphDiff, NamesTheAnnotationOfTheNode) {
  const auto body = [&](int amount) {
    const annotate scope("forward");
    add(x_, amount);
  };
  const auto differences = compare([&] { body(1); }, [&] { body(2); }, {.enable_annotations = true});
  ASSERT_THAT(differences, SizeIs(1));
  EXPECT_EQ(differences[0].second->annotation, (Annotation{{"name", "forward"}}));
  EXPECT_THAT(differences[0].str(), HasSubstr("(node 0) in forward: argument 1: "));
}

TEST_F(GraphDiff, NamesTheMemoryOfAddresses) {
  const auto differences = compare([&] { add(x_); }, [&] { add(y_); });
  ASSERT_THAT(differences, SizeIs(1));
  EXPECT_EQ(differences[0].field, "argument 0");
  EXPECT_THAT(differences[0].first_value, HasSubstr("(offset 0 of 512 bytes at 0x"));
  EXPECT_THAT(differences[0].second_value, HasSubstr("(offset 0 of 512 bytes at 0x"));
}

TEST_F(GraphDiff, FindsNothingBetweenTwoCapturesOfOneBody) {
  Buffer<int> kept_of_first, kept_of_second;
  const auto body = [&](Buffer<int>& kept) {
    const Generator generator(current_device());
    Buffer<int> scratch(100);
    scratch.fill_bytes_async(0);
    kept = Buffer<int>(4);
    copy_async(kept.data(), x_.data(), 16);
    launch_host([] {});
    generator.philox_state(1);
    const Event done;
    done.record(current_stream());
    add(kept);
  };
  EXPECT_THAT(compare([&] { body(kept_of_first); }, [&] { body(kept_of_second); }), IsEmpty());
  EXPECT_NE(kept_of_first.data(), kept_of_second.data());
}

TEST_F(GraphDiff, FindsAnotherPlaceInMemoryOfTheCapture) {
  const auto body = [&](int offset) {
    Buffer<int> scratch(100);
    scratch.fill_bytes_async(0);
    copy_async(scratch.data() + offset, x_.data(), 4);
  };
  const auto differences = compare([&] { body(0); }, [&] { body(1); });
  ASSERT_THAT(differences, SizeIs(1));
  EXPECT_EQ(differences[0].field, "destination");
  EXPECT_THAT(differences[0].first_value, HasSubstr("(allocation 0 of the capture, offset 0)"));
  EXPECT_THAT(differences[0].second_value, HasSubstr("(allocation 0 of the capture, offset 4)"));
}

TEST_F(GraphDiff, FindsSourceDestinationAndSizeOfCopiesAndSets) {
  const auto differences = compare(
      [&] {
        copy_async(x_.data(), y_.data(), 8);
        x_.fill_bytes_async(1);
      },
      [&] {
        copy_async(y_.data(), x_.data(), 4);
        x_.fill_bytes_async(2);
      });
  ASSERT_THAT(differences, SizeIs(4));
  EXPECT_EQ(differences[0].field, "destination");
  EXPECT_EQ(differences[1].field, "source");
  EXPECT_EQ(differences[2].field, "bytes");
  EXPECT_EQ(differences[2].first_value, "8");
  EXPECT_EQ(differences[2].second_value, "4");
  EXPECT_EQ(differences[3].field, "value");
  EXPECT_THAT(differences[3].str(), HasSubstr("memset (node 1): value: 0x1"));
}

TEST_F(GraphDiff, FindsTheShapeOfALaunch) {
  const auto body = [&](unsigned blocks) {
    launch(current_stream(), LaunchConfig{.grid = Dim3(blocks), .block = Dim3(4)}, Add{}, x_.data(), 1, x_.size());
  };
  const auto differences = compare([&] { body(1); }, [&] { body(2); });
  ASSERT_THAT(differences, SizeIs(1));
  EXPECT_EQ(differences[0].kind, DifferenceKind::launch_shape);
  EXPECT_EQ(differences[0].field, "grid.x");
  EXPECT_EQ(differences[0].first_value, "1");
  EXPECT_EQ(differences[0].second_value, "2");
}

TEST_F(GraphDiff, FindsAnotherKernelAndAnotherType) {
  const auto differences = compare([&] { add(x_), add(x_), x_.fill_bytes_async(1); },
                                   [&] { add(x_), multiply(x_, 2, y_), copy_async(x_.data(), y_.data(), 4); });
  EXPECT_THAT(kinds(differences), ElementsAre(DifferenceKind::function, DifferenceKind::node_type));
  EXPECT_THAT(differences[0].first_value, HasSubstr("Add"));
  EXPECT_THAT(differences[0].second_value, HasSubstr("Multiply"));
  EXPECT_EQ(differences[1].first_value, "memset");
  EXPECT_EQ(differences[1].second_value, "memcpy");
}

TEST_F(GraphDiff, FindsAnotherEventOfAnExternalWait) {
  const Event ours, theirs;
  const auto body = [&](const Event& event) {
    add(x_);
    event.wait(current_stream(), EventUse::external);
  };
  EXPECT_THAT(compare([&] { body(ours); }, [&] { body(ours); }), IsEmpty());
  const auto differences = compare([&] { body(ours); }, [&] { body(theirs); });
  ASSERT_THAT(differences, SizeIs(1));
  EXPECT_EQ(differences[0].kind, DifferenceKind::parameter);
  EXPECT_EQ(differences[0].second->name, "event wait");
  EXPECT_EQ(differences[0].second->index, 1U);
  EXPECT_EQ(differences[0].field, "event");
}

TEST_F(GraphDiff, FindsAnotherFunctionOfTheHost) {
  static int calls = 0;
  const auto one = [](void*) { ++calls; };
  const auto other = [](void*) { calls += 2; };
  const auto differences = compare([&] { call_on_host(current_stream(), one, nullptr); },
                                   [&] { call_on_host(current_stream(), other, nullptr); });
  EXPECT_THAT(kinds(differences), ElementsAre(DifferenceKind::function));
}

TEST_F(GraphDiff, PairsWhatIsTheSameAroundNodesThatOneGraphAloneHas) {
  const auto differences = compare([&] { add(x_, 1), add(x_, 2), add(x_, 3); },
                                   [&] { add(x_, 1), y_.fill_bytes_async(0), add(x_, 2), add(x_, 4), add(x_, 3); });
  ASSERT_THAT(kinds(differences), ::testing::Contains(DifferenceKind::node_added).Times(2));
  std::vector<std::string> added;
  for (const GraphDifference& each : differences)
    if (each.kind == DifferenceKind::node_added) {
      EXPECT_FALSE(each.first.has_value());
      added.push_back(each.second->number);
      EXPECT_THAT(each.str(), HasSubstr(": only in the second graph"));
    } else {
      EXPECT_EQ(each.kind, DifferenceKind::dependency) << each.str();
    }
  EXPECT_THAT(added, ElementsAre("1", "3"));
  for (const GraphDifference& each : diff(second_, first_))
    EXPECT_TRUE(each.kind == DifferenceKind::node_removed || each.kind == DifferenceKind::dependency) << each.str();
}

TEST_F(GraphDiff, FindsAnotherDependency) {
  const Stream fork;
  const auto body = [&](bool parallel) {
    add(x_);
    if (parallel) fork.wait(current_stream());
    add(x_);
    add(y_, 1, parallel ? fork.ref() : current_stream());
    if (parallel) current_stream().wait(fork);
    x_.fill_bytes_async(0);
  };
  const auto differences = compare([&] { body(false); }, [&] { body(true); });
  ASSERT_THAT(differences, SizeIs(3));
  for (const GraphDifference& each : differences) EXPECT_EQ(each.kind, DifferenceKind::dependency) << each.str();
  EXPECT_EQ(differences[0].second->number, "2");
  EXPECT_THAT(differences[0].first_value + differences[1].first_value, HasSubstr("Add (node 1)"));
  EXPECT_THAT(differences[0].second_value + differences[1].second_value, HasSubstr("Add (node 0)"));
  EXPECT_EQ(differences[2].second->number, "3");
  EXPECT_EQ(differences[2].first_value, "none");
  EXPECT_THAT(differences[2].second_value, HasSubstr("on the kernel"));
}

TEST_F(GraphDiff, FindsANodeThatIsDisabledInOneGraph) {
  first_ = capture([&] { add(x_), add(y_); });
  second_ = capture([&] { add(x_), add(y_); });
  second_.nodes()[1].set_enabled(false);
  const auto differences = diff(first_, second_);
  ASSERT_THAT(kinds(differences), ElementsAre(DifferenceKind::enabled));
  EXPECT_THAT(differences[0].str(), HasSubstr("(node 1): enabled: yes, then no"));
  first_.nodes()[1].set_enabled(false);
  EXPECT_THAT(diff(first_, second_), IsEmpty());
}

TEST_F(GraphDiff, ARecaptureWithAnotherExecutableEnablesDisabledNodes) {
  first_ = capture([&] { add(x_); });
  first_.nodes()[0].set_enabled(false);
  const Recapture result = first_.recapture([&] { add(x_), add(y_); });
  EXPECT_FALSE(result.in_place);
  EXPECT_THAT(kinds(result.differences),
              ::testing::UnorderedElementsAre(DifferenceKind::enabled, DifferenceKind::node_added));
}

TEST_F(GraphDiff, DifferencesWithoutContentAreText) {
  EXPECT_EQ(ComparedNode().str(), " (node )");
  EXPECT_EQ(GraphDifference().str(), " (node ): only in the first graph");
}

TEST_F(GraphDiff, NeedsBothTemplates) {
  first_ = capture([&] { add(x_); });
  CUDAGraph discarded = capture({.discard_template = true}, [&] { add(x_); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { diff(first_, discarded); }), "discard_template"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { diff(second_, first_); }), "`empty`"));
  EXPECT_THAT(diff(first_, first_), IsEmpty());
}

TEST_F(GraphDiff, RefusesGraphsOfTwoDevices) {
  static auto& backend = *new backend::test::FaultyBackend(default_device().backend());
  const Device other(backend);
  first_ = capture([&] { add(x_); });
  const DeviceGuard there(other);
  Buffer<int> far = zeros();
  second_ = capture([&] { add(far); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { diff(first_, second_); }), "expected two graphs of one device"));
}

}  // namespace
}  // namespace reprise::graphs::test
