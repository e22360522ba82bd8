// SPDX-License-Identifier: Apache-2.0
#include <ATen/record_function.h>

#include <algorithm>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "inspect/annotations/annotation_text.h"
#include "reprise/annotations.h"
#include "tests/libtorch/both_devices/device_fixture.h"

// Annotations on the backward pass of annotated work.

namespace reprise::libtorch::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class AnnotationsOfTensors : public OnDevice {
 protected:
  // The first product of a thread makes its handle of cuBLAS; autograd has a thread of its own.
  void SetUp() override {
    on_side_stream([&] { x_.mm(torch::rand({8, 8}, device_).requires_grad_()).sum().backward(); });
  }
  static GraphOptions annotated_options() {
    GraphOptions options;
    options.enable_annotations = true;
    return options;
  }
  void capture_work(const std::function<void()>& body) { capture(graph_, annotated_options(), body); }

  /// The annotation of each node as text, in order of creation; empty for none.
  static std::vector<std::string> texts(const CUDAGraph& graph) {
    std::vector<std::string> found(graph.node_count());
    for (const AnnotatedNode& each : graph.annotations()) found[each.index] = inspect::annotation_text(each.annotation);
    return found;
  }
  std::vector<std::string> texts() const { return texts(graph_); }
  void expect_in_order(const std::vector<std::string>& wanted) const {
    const auto found = texts();
    auto at = found.begin();
    for (const std::string& each : wanted) {
      at = std::find(at, found.end(), each);
      ASSERT_NE(at, found.end()) << each << " is not there, or not in its place, in "
                                 << ::testing::PrintToString(found);
    }
  }
  static std::set<std::string> once(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

  torch::Tensor x_ = torch::rand({4, 8}, device_);
  CUDAGraph graph_;
};

TEST_F(AnnotationsOfTensors, TheBackwardPassOfAnnotatedWorkIsAnnotatedLikewise) {
  torch::nn::Linear one(8, 8), two(8, 8);
  one->to(device_);
  two->to(device_);
  capture_work([&] {
    torch::Tensor h;
    {
      const annotate scope({{"module", "one"}});
      h = one(x_);
    }
    {
      const annotate scope("activation");
      h = h.tanh();
    }
    {
      const annotate scope({{"module", "two"}});
      h = two(h);
    }
    const auto loss = h.sum();
    loss.backward();
  });
  expect_in_order({"module=one", "activation", "module=two", "module=two, pass=backward", "activation, pass=backward",
                   "module=one, pass=backward"});
}

TEST_F(AnnotationsOfTensors, WorkThatWasNotAnnotatedHasABackwardPassWithoutAnnotation) {
  const auto x = x_.requires_grad_();
  capture_work([&] {
    const auto y = x * 2;
    {
      const annotate scope("other");
      static_cast<void>(x + 1);
    }
    static_cast<void>(torch::autograd::grad({y.sum()}, {x}));
  });
  EXPECT_THAT(texts(), Not(Contains("other, pass=backward")));
}

TEST_F(AnnotationsOfTensors, TheBackwardPassMayBeCapturedInAnotherGraph) {
  const auto x = x_.requires_grad_();
  torch::Tensor y, gradient;
  capture_work([&] {
    const annotate scope("forward");
    y = (x * x).sum();
  });
  CUDAGraph backward;
  GraphOptions options = annotated_options();
  options.pool = graph_.pool();
  capture(backward, options, [&] { gradient = torch::autograd::grad({y}, {x})[0]; });
  EXPECT_THAT(texts(backward), Contains("forward, pass=backward"));
  graph_.replay();
  backward.replay();
  EXPECT_TRUE(same(gradient, x.detach() * 2));
}

TEST_F(AnnotationsOfTensors, AGraphThatIsResetForgetsWhatItsBackwardPassIsOf) {
  const auto x = x_.requires_grad_();
  torch::Tensor y;
  capture_work([&] {
    const annotate scope("forward");
    y = (x * x).sum();
  });
  CUDAGraph backward;
  GraphOptions options = annotated_options();
  options.pool = graph_.pool();
  const CUDAGraph keeps_the_pool = [&] {
    CUDAGraph other;
    capture(other, options, [&] { static_cast<void>(x.detach() + 1); });
    return other;
  }();
  graph_.reset();
  capture(backward, options, [&] { static_cast<void>(torch::autograd::grad({y}, {x})); });
  EXPECT_THAT(backward.annotations(), IsEmpty());
}

TEST_F(AnnotationsOfTensors, AScopeThatEndsAfterTheCaptureSaysNothingOfLaterWork) {
  const auto x = x_.requires_grad_();
  std::optional<annotate> scope;
  capture_work([&] {
    scope.emplace("late");
    static_cast<void>(x * 2);
  });
  scope.reset();
  CUDAGraph later;
  capture(later, annotated_options(), [&] { static_cast<void>(torch::autograd::grad({(x * 3).sum()}, {x})); });
  EXPECT_THAT(later.annotations(), IsEmpty());
}

TEST_F(AnnotationsOfTensors, AScopeThatAnotherThreadLeavesAfterTheCaptureSaysNothingOfItsLaterWork) {
  const auto x = x_.requires_grad_();
  torch::Tensor y;
  const Stream own;
  current_stream().synchronize();
  std::promise<void> entered, ended;
  std::thread other;
  capture_work([&] {
    other = std::thread([&, stream = current_stream()] {
      std::optional<StreamGuard> guard(stream);
      const annotate scope("late");
      guard.reset();
      entered.set_value();
      ended.get_future().wait();
      const StreamGuard on(own);
      y = (x * 3).sum();
    });
    entered.get_future().wait();
    static_cast<void>(x.detach() * 2);
  });
  ended.set_value();
  other.join();
  CUDAGraph later;
  GraphOptions options = annotated_options();
  options.stream = own.ref();  // autograd works on the streams of the forward
  capture(later, options, [&] { static_cast<void>(torch::autograd::grad({y}, {x})); });
  EXPECT_THAT(later.annotations(), IsEmpty());
}

TEST_F(AnnotationsOfTensors, WithoutThemTheBackwardPassIsNotObserved) {
  const auto x = x_.requires_grad_();
  capture(graph_, [&] {
    EXPECT_FALSE(at::getStepCallbacksUnlessEmpty(at::RecordScope::BACKWARD_FUNCTION).has_value());
    static_cast<void>(torch::autograd::grad({(x * x).sum()}, {x}));
  });
  EXPECT_FALSE(at::getStepCallbacksUnlessEmpty(at::RecordScope::BACKWARD_FUNCTION).has_value());
}

}  // namespace
}  // namespace reprise::libtorch::test
