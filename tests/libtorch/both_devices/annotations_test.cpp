// SPDX-License-Identifier: Apache-2.0
#include <ATen/record_function.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "inspect/annotations/annotation_text.h"
#include "reprise/libtorch/annotated_modules.h"
#include "tests/libtorch/both_devices/device_fixture.h"

// Annotations with the names of modules, and on the backward pass of annotated work.

namespace reprise::libtorch::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    register_module("first", first);
    register_module("rest", rest);
  }
  torch::Tensor forward(const torch::Tensor& x) { return annotated("rest", rest)(annotated("first", first)(x)); }
  torch::nn::Linear first{8, 8};
  torch::nn::Sequential rest = torch::nn::Sequential(torch::nn::ReLU(), torch::nn::Linear(8, 8));
};
TORCH_MODULE(Block);

/// Two arguments, and no tensor as its result.
struct PairImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x, const torch::Tensor& y) {
    return {x + y, x * y};
  }
};
TORCH_MODULE(Pair);
struct JoinImpl : torch::nn::Module {
  torch::Tensor forward(const std::tuple<torch::Tensor, torch::Tensor>& both) {
    return std::get<0>(both) - std::get<1>(both);
  }
};
TORCH_MODULE(Join);

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

// --- Names of modules ------------------------------------------------------------------------------------------------

TEST_F(AnnotationsOfTensors, AModuleAnnotatesWithItsName) {
  REPRISE_HOST_ONLY("a layer may be several kernels of CUDA");
  torch::nn::Linear layer(8, 8);
  layer->to(device_);
  capture_work([&] {
    const auto y = annotated("layer", layer)(x_);
    static_cast<void>(y + 1);
    static_cast<void>(annotated("again", layer.ptr())(y));
  });
  EXPECT_THAT(texts(), ElementsAre("module=layer", "", "module=again"));
}

TEST_F(AnnotationsOfTensors, NamesOfModulesAddUpToThoseOfNamedModules) {
  torch::nn::Sequential model;
  model->push_back(Block());
  model->push_back(torch::nn::ReLU());
  model->push_back("last", Block());
  model->to(device_);
  torch::Tensor y;
  capture_work([&] { y = annotated("model", model)(x_); });
  const auto found = texts();
  EXPECT_EQ(once(found), (std::set<std::string>{"module=model.0.first", "module=model.0.rest.0",
                                                "module=model.0.rest.1", "module=model.1", "module=model.last.first",
                                                "module=model.last.rest.0", "module=model.last.rest.1"}));
  const auto modules = model->named_modules("model");
  for (const std::string& each : found) EXPECT_TRUE(modules.contains(each.substr(7))) << each;
  graph_.replay();
  EXPECT_TRUE(torch::allclose(y, model->forward(x_)));
}

TEST_F(AnnotationsOfTensors, ModulesOfASequentialMayHaveSeveralArgumentsAndOtherResults) {
  torch::nn::Sequential model;
  model->push_back(Pair());
  model->push_back(Join());
  torch::nn::Sequential pair;
  pair->push_back(Pair());
  const auto once_eagerly = annotated("model", model)(x_, x_);
  EXPECT_TRUE(same(once_eagerly, model->forward(x_, x_)));
  torch::Tensor y;
  capture_work([&] {
    y = annotated("model", model)(x_, x_);
    using Both = std::tuple<torch::Tensor, torch::Tensor>;
    static_cast<void>(annotated("pair", pair).operator()<Both>(x_, x_));
  });
  EXPECT_THAT(texts(),
              ElementsAre("module=model.0", "module=model.0", "module=model.1", "module=pair.0", "module=pair.0"));
  graph_.replay();
  EXPECT_TRUE(same(y, once_eagerly));
}

TEST_F(AnnotationsOfTensors, AModuleThatThrowsLeavesItsName) {
  torch::nn::Linear layer(8, 8);
  layer->to(device_);
  capture_work([&] {
    EXPECT_THROW(annotated("layer", layer)(torch::ones({3}, device_)), c10::Error);
    static_cast<void>(annotated("after", layer)(x_));
  });
  EXPECT_THAT(texts(), Contains("module=after"));
  EXPECT_THAT(texts(), Not(Contains(HasSubstr("layer"))));
}

// --- The backward pass -----------------------------------------------------------------------------------------------

TEST_F(AnnotationsOfTensors, AModuleThatAnotherThreadLeavesChangesNoNamesThere) {
  torch::nn::Linear layer(8, 8);
  layer->to(device_);
  capture_work([&] {
    std::unique_ptr<annotate_module> theirs;
    std::thread([&, stream = current_stream()] {
      const StreamGuard guard(stream);
      const annotate_module outer("outer");
      theirs = std::make_unique<annotate_module>("inner");
    }).join();
    const annotate_module here("here");
    theirs.reset();
    static_cast<void>(annotated("layer", layer)(x_));
  });
  EXPECT_EQ(texts().back(), "module=here.layer");
}

TEST_F(AnnotationsOfTensors, TheBackwardPassOfAnnotatedWorkIsAnnotatedLikewise) {
  torch::nn::Linear one(8, 8), two(8, 8);
  one->to(device_);
  two->to(device_);
  capture_work([&] {
    torch::Tensor h = annotated("one", one)(x_);
    {
      const annotate scope("activation");
      h = h.tanh();
    }
    h = annotated("two", two)(h);
    const auto loss = h.sum();
    loss.backward();
  });
  expect_in_order({"module=one", "activation", "module=two", "module=two, pass=backward", "activation, pass=backward",
                   "module=one, pass=backward"});
}

TEST_F(AnnotationsOfTensors, TheBackwardPassOfASequentialHasTheNamesOfItsModules) {
  torch::nn::Sequential model(torch::nn::Linear(64, 64), torch::nn::ReLU(), torch::nn::Linear(64, 8));
  model->to(device_);
  const auto x = torch::rand({32, 64}, device_);
  const auto step = [&] { annotated("model", model)(x).sum().backward(); };
  on_side_stream(step);
  capture_work(step);
  expect_in_order({"module=model.0", "module=model.1", "module=model.2", "module=model.2, pass=backward",
                   "module=model.1, pass=backward", "module=model.0, pass=backward"});
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
