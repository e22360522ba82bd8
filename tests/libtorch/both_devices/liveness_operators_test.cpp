// SPDX-License-Identifier: Apache-2.0
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/libtorch/host/autocast.h"

// Input liveness of what operators call: within autograd's functions, autocast, and operators of users.

namespace reprise::libtorch::test {
namespace {

using ::testing::Contains;
using ::testing::UnorderedElementsAre;

struct Scale : torch::autograd::Function<Scale> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& scale) {
    context->save_for_backward({scale});
    return x * scale;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0], Tensor()};
  }
};

/// An operator that multiplies with a tensor which is no argument of it.
Tensor times_hidden(const Tensor& x, const Tensor& factor) {
  static Tensor hidden;
  static const torch::Library library = [] {
    torch::Library made(torch::Library::DEF, "reprise_test", std::nullopt, __FILE__, __LINE__);
    made.def("times_hidden(Tensor x) -> Tensor", [](const Tensor& each) { return each * hidden; });
    return made;
  }();
  hidden = factor;
  const Tensor result = c10::Dispatcher::singleton()
                            .findSchemaOrThrow("reprise_test::times_hidden", "")
                            .typed<Tensor(const Tensor&)>()
                            .call(x);
  hidden.reset();
  return result;
}

class LivenessOfOperators : public OnDevice {
 protected:
  void SetUp() override { memory_of_tensors(); }  // nothing is cached

  void capture_work(const std::function<void()>& body) {
    GraphOptions options;
    options.check_input_liveness = true;
    capture(graph_, options, body);
  }
  void expect_dead(const void* address) {
    try {
      graph_.replay();
      ADD_FAILURE() << "the replay was not refused";
    } catch (const DeadInputError& error) {
      ASSERT_EQ(error.inputs().size(), 1U);
      EXPECT_EQ(error.inputs()[0].address, address);
    }
  }

  CUDAGraph graph_;
  Tensor result_;
};

TEST_F(LivenessOfOperators, WordsThatAnEagerRunLeftAreNoInputsWithinAFunctionOfAutograd) {
  const auto x = torch::full({100}, 3.0F, device_), scale = torch::tensor(2.0F).to(device_);
  for (const bool with_gradients : {false, true}) {
    const torch::AutoGradMode mode(with_gradients);
    result_ = Scale::apply(x, scale);
    graph_.reset();
    capture_work([&] { result_ = Scale::apply(x, scale); });
    EXPECT_THAT(input_addresses(graph_), UnorderedElementsAre(x.data_ptr(), scale.data_ptr()));
    graph_.replay();
    EXPECT_TRUE(same(result_, torch::full({100}, 6.0F)));
  }
}

TEST_F(LivenessOfOperators, WordsThatAnEagerRunLeftAreNoInputsBelowAutograd) {
  const auto x = torch::full({100}, 3.0F, device_), scale = torch::tensor(2.0F).to(device_);
  const at::AutoDispatchBelowADInplaceOrView below;
  result_ = x * scale;
  const void* const eager = result_.data_ptr();
  capture_work([&] { result_ = x * scale; });
  EXPECT_THAT(input_addresses(graph_), UnorderedElementsAre(x.data_ptr(), scale.data_ptr()))
      << "the eager result was at " << eager << ", that of the graph is at " << result_.data_ptr();
  graph_.replay();
  EXPECT_TRUE(same(result_, torch::full({100}, 6.0F)));
}

TEST_F(LivenessOfOperators, WhatAFunctionOfAutogradUsesInBothPassesIsAnInput) {
  const auto x = torch::full({100}, 3.0F, device_).requires_grad_();
  auto scale = torch::tensor(2.0F).to(device_);
  Tensor gradient;
  const auto step = [&] { gradient = torch::autograd::grad({Scale::apply(x, scale).sum()}, {x})[0]; };
  on_side_stream(step);
  capture_work(step);
  EXPECT_THAT(input_addresses(graph_), UnorderedElementsAre(x.data_ptr(), scale.data_ptr()));
  graph_.replay();
  EXPECT_TRUE(same(gradient, torch::full({100}, 2.0F)));
  const void* const memory = scale.data_ptr();
  scale.reset();
  expect_dead(memory);
}

TEST_F(LivenessOfOperators, WhatAnOperatorGivesToOthersIsAnInput) {
  const auto x = torch::full({100}, 3.0F, device_);
  auto factor = torch::full({100}, 2.0F, device_);
  result_ = times_hidden(x, factor);
  capture_work([&] { result_ = times_hidden(x, factor); });
  EXPECT_THAT(input_addresses(graph_), UnorderedElementsAre(x.data_ptr(), factor.data_ptr()));
  graph_.replay();
  EXPECT_TRUE(same(result_, torch::full({100}, 6.0F)));
  const void* const memory = factor.data_ptr();
  factor.reset();
  expect_dead(memory);
}

TEST_F(LivenessOfOperators, AWeightThatAutocastHadInItsCacheIsAnInputItself) {
  auto weight = torch::ones({16, 16}, device_).requires_grad_();
  const auto x = torch::ones({16, 16}, torch::TensorOptions(torch::kHalf).device(device_));
  {
    const Autocast region({}, device_.type());
    on_side_stream([&] { result_ = torch::mm(x, weight); });
    capture_work([&] { result_ = torch::mm(x, weight); });
  }
  EXPECT_THAT(input_addresses(graph_), Contains(weight.data_ptr()));
  const auto other = torch::zeros({16, 16}, x.options());  // where the cast was
  graph_.replay();
  EXPECT_TRUE(same(result_, torch::full({16, 16}, 16.0F, torch::kHalf)));
  const void* const memory = weight.data_ptr();
  result_ = result_.detach();  // whose backward would need the weight
  weight.reset();
  expect_dead(memory);
}

}  // namespace
}  // namespace reprise::libtorch::test
