// SPDX-License-Identifier: Apache-2.0
#include <ostream>
#include <string>

#include <gmock/gmock.h>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// The options that compare two captures of a body, GraphOptions::inputs.confirm and check_frozen_values: what they have
// in common.

namespace reprise::graphs::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct ComparingOption {
  const char* name;
  const char* suffix;  // of the names of tests
  GraphOptions (*make)();
  const char* omissions;  // how its warning of them begins
};

void PrintTo(const ComparingOption& option, std::ostream* out) {
  *out << option.name;
}

const ComparingOption confirm = {"GraphOptions::inputs.confirm", "Confirm",
                                 [] {
                                   GraphOptions options;
                                   options.check_input_liveness = true;
                                   options.inputs.confirm = true;
                                   return options;
                                 },
                                 "Inputs of a graph may be missing among those whose liveness it checks"};
const ComparingOption check_frozen = {"GraphOptions::check_frozen_values", "CheckFrozenValues",
                                      [] {
                                        GraphOptions options;
                                        options.check_frozen_values = no_next;
                                        return options;
                                      },
                                      "GraphOptions::check_frozen_values may have missed values"};

class TwoCaptures : public ::testing::TestWithParam<ComparingOption> {
 protected:
  /// The text of the refusal of `body`, which gets true in the first capture.
  template <class Body>
  std::string refusal(const Body& body) {
    runs_ = 0;
    return text_of<UsageError>([&] { capture(graph_, GetParam().make(), [&] { body(runs_++ == 0); }); });
  }

  Buffer<int> x_ = zeros();
  int runs_ = 0;
  CUDAGraph graph_;
};

TEST_P(TwoCaptures, LeaveTheGraphOfTheSecondAndReleaseTheFirst) {
  settle_memory();
  Buffer<int> result;
  capture(graph_, GetParam().make(), [&] {
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

TEST_P(TwoCaptures, OfMoreOrFewerNodesAreRefusedByTheFirstThatDiffers) {
  const std::string fewer = refusal([&](bool is_first) {
    add(x_);
    if (is_first) fill_async(x_.data(), 0, 4);
  });
  EXPECT_THAT(fewer, StartsWith(std::string(GetParam().name) + " needs a body that captures the same nodes each time"));
  EXPECT_THAT(fewer, HasSubstr("The first difference: memset (node 1) in the first capture, nothing in the second "
                               "(2 and 1 nodes in all)"));
  const std::string more = refusal([&](bool is_first) {
    add(x_);
    if (!is_first) add(x_);
  });
  EXPECT_THAT(more, HasSubstr("The first difference: nothing in the first capture, kernel reprise::graphs::test::Add "
                              "(node 1) in the second (1 and 2 nodes in all)"));
}

TEST_P(TwoCaptures, OfOtherNodesAreRefusedByTheFirstThatDiffers) {
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

TEST_P(TwoCaptures, WithAWaitForAnExternalEventInOneOfThemAreRefusedByIt) {
  const Event event;
  const std::string text = refusal([&](bool is_first) {
    add(x_);
    if (!is_first) event.wait(current_stream(), EventUse::external);
    add(x_);
  });
  EXPECT_THAT(text, HasSubstr("kernel reprise::graphs::test::Add (node 1) in the first capture, event wait (node 1) in "
                              "the second (2 and 3 nodes in all)"));
}

TEST_P(TwoCaptures, OfOtherNodesLeaveTheGraphEmptyAndAWarmUpHelps) {
  const auto body = [&](bool is_first) {
    if (is_first) fill_async(x_.data(), 0, 4);
    add(x_);
  };
  EXPECT_THAT(refusal(body), HasSubstr("set GraphOptions::warmup to 1"));
  EXPECT_THROW(graph_.pool(), UsageError) << "it is empty";
  runs_ = 0;
  GraphOptions options = GetParam().make();
  options.warmup = 1;
  capture(graph_, options, [&] { body(runs_++ == 0); });
  EXPECT_EQ(runs_, 3);
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_P(TwoCaptures, AreRefusedByCaptureBeginAndTheScope) {
  const SideStream stream;
  const std::string why =
      std::string(GetParam().name) + " needs a body that can run more than once, and only capture() has one";
  EXPECT_THAT(text_of<UsageError>([&] { graph_.capture_begin(GetParam().make()); }), HasSubstr(why));
  EXPECT_THAT(text_of<UsageError>([&] { const graph scope(graph_, GetParam().make()); }), HasSubstr(why));
  capture(graph_, GetParam().make(), [&] { add(x_); });
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  graph_.reset();
  EXPECT_THAT(text_of<UsageError>([&] { graph_.capture_begin(GetParam().make()); }), HasSubstr(why));
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

TEST_P(TwoCaptures, WarnOnceOfNodesThatCannotBeRead) {
  static auto& runtime = *new Withholding(default_device().backend());  // devices live until the process ends
  const DeviceGuard guard{Device(runtime)};
  Buffer<int> x = zeros();
  for (const bool provides_second : {false, true}) {
    runs_ = 0;
    const reprise::test::Warnings warnings;
    capture(graph_, GetParam().make(), [&] {
      runtime.provides = provides_second && runs_++ == 1;
      add(x);
    });
    EXPECT_THAT(warnings.texts(),
                ElementsAre(AllOf(StartsWith(std::string(GetParam().omissions) + ": the parameters of the kernel"),
                                  HasSubstr("(node 0) are not known, "))));
    graph_.reset();
  }
}

TEST(TwoCapturesOfBothOptions, AreTheSameTwo) {
  Buffer<int> x = zeros();
  int runs = 0, nexts = 0;
  GraphOptions options = confirm.make();
  options.check_frozen_values = [&] { ++nexts; };
  CUDAGraph graph = capture(options, [&] {
    ++runs;
    add(x);
  });
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(nexts, 1);
  EXPECT_THAT(graph.inputs(), SizeIs(1));
  x.reset();
  EXPECT_THROW(graph.replay(), DeadInputError);
}

INSTANTIATE_TEST_SUITE_P(Of, TwoCaptures, ::testing::Values(confirm, check_frozen),
                         [](const auto& info) { return std::string(info.param.suffix); });

}  // namespace
}  // namespace reprise::graphs::test
