// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/capture/framework_captures.h"
#include "inspect/frozen/operator_source.h"
#include "inspect/liveness/input_source.h"
#include "memory/watches/allocation_log.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/inspect/frozen_values_fixture.h"

// GraphOptions::check_frozen_values: the two captures, what is left of them, and what a framework adds.

namespace reprise::graphs::test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class FrozenCaptures : public FrozenValues {};

TEST_F(FrozenCaptures, AnotherGraphCanBeCapturedAfterARefusal) {
  refusal([&] { add(x_, i_); });
  capture_checked([&] { add(x_, 5); });
  graph_.replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_F(FrozenCaptures, TheFunctionIsNotKept) {
  auto held = std::make_shared<int>(7);
  capture(graph_, {.check_frozen_values = [&, held] { ++i_; }}, [&] { add(x_); });
  EXPECT_EQ(i_, 1);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(FrozenCaptures, WithoutAFunctionWhatTheBodyChangesIsFoundAndNothingElse) {
  capture(graph_, {.check_frozen_values = no_next}, [&] { add(x_, i_); });
  graph_.reset();
  GraphOptions options;
  options.check_frozen_values = no_next;
  const FrozenValuesError error = refusal([&] { add(x_, ++runs_); }, options);
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].first, 1U);
  EXPECT_EQ(error.values()[0].second, 2U);
}

TEST_F(FrozenCaptures, AnExceptionOfTheFunctionLeavesNothingCaptured) {
  settle_memory();
  const CachingAllocator& allocator = CachingAllocator::of(current_device());
  GraphOptions options;
  options.check_frozen_values = [] { throw std::runtime_error("no further batch"); };
  Buffer<int> result;
  EXPECT_THAT(text_of<std::runtime_error>([&] {
                capture(graph_, options, [&] {
                  ++runs_;
                  result = Buffer<int>(100);
                  multiply(x_, 2, result);
                });
              }),
              HasSubstr("no further batch"));
  EXPECT_EQ(runs_, 1);
  EXPECT_THROW(graph_.pool(), UsageError) << "it is empty";
  result.reset();
  EXPECT_TRUE(eventually([&] {
    CachingAllocator::of(current_device()).empty_cache();
    return allocator.statistics().reserved_bytes == allocator.statistics(MempoolId{}).reserved_bytes;
  }));
  capture(graph_, [&] { add(x_, 3); });
  graph_.replay();
  EXPECT_EQ(first(x_), 3);
}

TEST_F(FrozenCaptures, TheFunctionRunsBetweenTheCapturesOnTheStreamFromBefore) {
  const StreamRef before = current_stream();
  std::vector<std::string> order;
  GraphOptions options;
  options.check_frozen_values = [&] {
    order.emplace_back("next");
    EXPECT_EQ(current_stream(), before);
    EXPECT_THROW(graph_.replay(), UsageError) << "it is empty";
    add(x_, 7);  // real work
  };
  capture(graph_, options, [&] {
    order.emplace_back("body");
    add(x_);
  });
  EXPECT_EQ(order, (std::vector<std::string>{"body", "next", "body"}));
  EXPECT_EQ(first(x_), 7);
}

TEST_F(FrozenCaptures, AreComparedWithADiscardedTemplate) {
  GraphOptions options;
  options.discard_template = true;
  EXPECT_THAT(refusal([&] { add(x_, i_); }, options).values(), SizeIs(1));
}

// --- A framework with operators and an allocator of its own ---------------------------------------------------------

class NamesOperators final : public inspect::OperatorSource {
 public:
  void started(captures::Capture& /*capture*/) override {}
  void ended(GraphHandle template_graph) override {
    std::vector<GraphNodeHandle> nodes;
    backend::Checked(default_device().backend()).graph_nodes(template_graph, &nodes);
    first_ = nodes.front();
  }
  std::string operator_of(GraphNodeHandle node) const override { return node == first_ ? "aten::add_" : ""; }
  bool was_given(GraphNodeHandle node, std::uintptr_t address) const override {
    return node == first_ && address - given_begin < given_bytes;
  }

  static inline std::uintptr_t given_begin = 0;
  static inline std::size_t given_bytes = 0;

 private:
  GraphNodeHandle first_ = nullptr;
};

struct NoneOfTheirs final : FrameworkListeners {
  std::vector<CaptureListener*> in_order() override { return {}; }
};

class HasOperators final : public backend::Framework, public FrameworkCaptures {
 public:
  std::string_view name() const noexcept override { return "with operators"; }
  const FrameworkCaptures* captures() const noexcept override { return this; }
  std::unique_ptr<FrameworkListeners> make_listeners() const override { return std::make_unique<NoneOfTheirs>(); }
  std::unique_ptr<inspect::InputSource> make_input_source(const captures::Capture& /*capture*/) const override {
    return nullptr;
  }
  std::shared_ptr<inspect::OperatorSource> make_operator_source(const captures::Capture& /*capture*/) const override {
    return std::make_shared<NamesOperators>();
  }
};

TEST_F(FrozenCaptures, TextsNameTheOperatorOfAFramework) {
  const HasOperators theirs;
  const reprise::test::ScopedFramework scope(theirs);
  CUDAGraph graph;
  const auto run = [&] {
    capture(graph, {.check_frozen_values = [&] { ++i_; }}, [&] {
      add(x_, i_);
      add(x_, i_);
    });
  };
  const std::string text = text_of<FrozenValuesError>(run);
  EXPECT_THAT(text, HasSubstr("Add (node 0), operator aten::add_, parameter 1, offset 0"));
  EXPECT_THAT(text, HasSubstr("Add (node 1), parameter 1, offset 0"));
}

/// With padding at its end.
class Slice {
 public:
  Slice(int* begin, short count) : begin_(begin), count_(count) {}
  REPRISE_KERNEL int* begin() const { return begin_; }
  REPRISE_KERNEL unsigned count() const { return static_cast<unsigned>(count_); }

 private:
  int* begin_;
  short count_;
};
struct AddToSlice {
  REPRISE_KERNEL void operator()(Thread t, Slice slice) const {
    if (t.global_x() < slice.count()) slice.begin()[t.global_x()] += 1;
  }
};

TEST_F(FrozenCaptures, AnAddressThatAnOperatorWasGivenIsCertain) {
  const HasOperators theirs;
  const reprise::test::ScopedFramework scope(theirs);
  NamesOperators::given_begin = reinterpret_cast<std::uintptr_t>(x_.data());
  for (const std::size_t given : {std::size_t{0}, x_.size() * sizeof(int)}) {
    NamesOperators::given_bytes = given;
    i_ = 0;
    CUDAGraph graph;
    const auto run = [&] {
      capture(graph, {.check_frozen_values = [&] { ++i_; }}, [&] {
        launch_with_padding(AddToSlice{}, Slice{x_.data() + i_, 1});
      });
    };
    if (given == 0)
      EXPECT_NO_THROW(run()) << "a warning: the word may be an uninitialised one";
    else
      EXPECT_THAT(text_of<FrozenValuesError>(run), HasSubstr("operator aten::add_, parameter 0, offset 0"));
  }
  NamesOperators::given_bytes = 0;
}

TEST_F(FrozenCaptures, MemoryOfAnotherAllocatorThatFillsThePoolMayLieElsewhereInEachCapture) {
  Buffer<int> memory = zeros(100);
  const MempoolId pool = graph_pool_handle();
  capture(graph_, {.pool = pool, .check_frozen_values = [&] { ++i_; }}, [&] {
    memory::AllocationLog::note(pool, memory.data() + 50 * i_, 100);
    fill_async(memory.data() + 50 * i_ + 4, 0, 8);
  });
  EXPECT_EQ(i_, 1);
}

}  // namespace
}  // namespace reprise::graphs::test
