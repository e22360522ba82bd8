// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// GraphOptions::check_frozen_values captures a body twice: what holds whatever the values are.

namespace reprise::graphs::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

GraphOptions checking() {
  GraphOptions options;
  options.check_frozen_values = no_next;
  return options;
}

class TwoCaptures : public ::testing::Test {
 protected:
  /// The text of the refusal of `body`, which gets true in the first capture.
  template <class Body>
  std::string refusal(const Body& body) {
    runs_ = 0;
    return text_of<UsageError>([&] { capture(graph_, checking(), [&] { body(runs_++ == 0); }); });
  }

  Buffer<int> x_ = zeros();
  int runs_ = 0;
  CUDAGraph graph_;
};

TEST_F(TwoCaptures, LeaveTheGraphOfTheSecondAndReleaseTheFirst) {
  settle_memory();
  Buffer<int> result;
  capture(graph_, checking(), [&] {
    ++runs_;
    result = Buffer<int>(1);
    multiply(x_, 2, result);
  });
  EXPECT_EQ(runs_, 2);
  const CachingAllocator& allocator = CachingAllocator::of(current_device());
  EXPECT_EQ(allocator.statistics(graph_.pool()).allocations, 1U);
  EXPECT_TRUE(eventually([&] {
    CachingAllocator::of(current_device()).empty_cache();
    return allocator.statistics().reserved_bytes ==
           allocator.statistics(MempoolId{}).reserved_bytes + allocator.statistics(graph_.pool()).reserved_bytes;
  })) << "the pool of the first capture is gone";
  add(x_, 21);
  current_stream().synchronize();
  graph_.replay();
  EXPECT_EQ(first(result), 42);
}

TEST_F(TwoCaptures, OfMoreOrFewerNodesAreRefusedByTheFirstThatDiffers) {
  const std::string fewer = refusal([&](bool is_first) {
    add(x_);
    if (is_first) fill_async(x_.data(), 0, 4);
  });
  EXPECT_THAT(fewer,
              StartsWith("GraphOptions::check_frozen_values needs a body that captures the same nodes each time"));
  EXPECT_THAT(fewer, HasSubstr("The first difference: memset (node 1) in the first capture, nothing in the second "
                               "(2 and 1 nodes in all)"));
  const std::string more = refusal([&](bool is_first) {
    add(x_);
    if (!is_first) add(x_);
  });
  EXPECT_THAT(more, HasSubstr("The first difference: nothing in the first capture, kernel reprise::graphs::test::Add "
                              "(node 1) in the second (1 and 2 nodes in all)"));
}

TEST_F(TwoCaptures, OfOtherNodesAreRefusedByTheFirstThatDiffers) {
  const std::string other_type = refusal([&](bool is_first) {
    add(x_);
    if (is_first)
      add(x_);
    else
      fill_async(x_.data(), 0, 4);
  });
  EXPECT_THAT(other_type, HasSubstr("kernel reprise::graphs::test::Add (node 1) in the first capture, memset (node 1) "
                                    "in the second (2 and 2 nodes in all)"));
  Buffer<int> y = zeros();
  const std::string other_kernel = refusal([&](bool is_first) {
    if (is_first)
      add(x_);
    else
      multiply(x_, 2, y);
  });
  EXPECT_THAT(other_kernel, HasSubstr("Add (node 0) in the first capture, kernel reprise::graphs::test::Multiply (node "
                                      "0) in the second (1 and 1 nodes in all)"));
}

TEST_F(TwoCaptures, WithAWaitForAnExternalEventInOneOfThemAreRefusedByIt) {
  const Event event;
  const std::string text = refusal([&](bool is_first) {
    add(x_);
    if (!is_first) event.wait(current_stream(), EventUse::external);
    add(x_);
  });
  EXPECT_THAT(text, HasSubstr("kernel reprise::graphs::test::Add (node 1) in the first capture, event wait (node 1) in "
                              "the second (2 and 3 nodes in all)"));
}

TEST_F(TwoCaptures, OfOtherNodesLeaveTheGraphEmptyAndAWarmUpHelps) {
  const auto body = [&](bool is_first) {
    if (is_first) fill_async(x_.data(), 0, 4);
    add(x_);
  };
  EXPECT_THAT(refusal(body), HasSubstr("set GraphOptions::warmup to 1"));
  EXPECT_THROW(graph_.pool(), UsageError) << "it is empty";
  runs_ = 0;
  GraphOptions options = checking();
  options.warmup = 1;
  capture(graph_, options, [&] { body(runs_++ == 0); });
  EXPECT_EQ(runs_, 3);
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(TwoCaptures, AreRefusedByCaptureBeginAndTheScope) {
  const SideStream stream;
  const std::string why =
      "GraphOptions::check_frozen_values needs a body that can run more than once, and only capture() has one";
  EXPECT_THAT(text_of<UsageError>([&] { graph_.capture_begin(checking()); }), HasSubstr(why));
  EXPECT_THAT(text_of<UsageError>([&] { const graph scope(graph_, checking()); }), HasSubstr(why));
  capture(graph_, checking(), [&] { add(x_); });
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  graph_.reset();
  EXPECT_THAT(text_of<UsageError>([&] { graph_.capture_begin(checking()); }), HasSubstr(why));
}

/// A device that does not provide where the parameters of kernels lie, or not in the first capture.
class Withholding final : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;
  backend::Result function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) override {
    return provides ? FaultyBackend::function_param_info(function, index, param) : ErrorCode::not_supported;
  }
  bool provides = false;
};

TEST_F(TwoCaptures, WarnOnceOfNodesThatCannotBeRead) {
  static auto& runtime = *new Withholding(default_device().backend());  // devices live until the process ends
  const DeviceGuard guard{Device(runtime)};
  Buffer<int> x = zeros();
  for (const bool provides_second : {false, true}) {
    runs_ = 0;
    const reprise::test::Warnings warnings;
    capture(graph_, checking(), [&] {
      runtime.provides = provides_second && runs_++ == 1;
      add(x);
    });
    EXPECT_THAT(
        warnings.texts(),
        ElementsAre(
            AllOf(StartsWith("GraphOptions::check_frozen_values may have missed values: the parameters of the kernel"),
                  HasSubstr("(node 0) are not known, "))));
    graph_.reset();
  }
}

TEST_F(TwoCaptures, FindTheGraphCapturingBothTimes) {
  capture(graph_, checking(), [&] {
    ++runs_;
    EXPECT_EQ(graph_.device(), current_device());
    EXPECT_THROW(graph_.reset(), UsageError);
    add(x_);
  });
  EXPECT_EQ(runs_, 2);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(TwoCaptures, OfWhichTheFirstFailsAreReportedByTheGraph) {
  EXPECT_THROW(capture(graph_, checking(),
                       [&] {
                         ++runs_;
                         add(x_);
                         make_unsafe_call();
                       }),
               CaptureError);
  EXPECT_EQ(runs_, 1);
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_EQ(graph_.capture_report()->code, ErrorCode::stream_capture_invalidated);
  capture(graph_, checking(), [&] { add(x_); });
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
