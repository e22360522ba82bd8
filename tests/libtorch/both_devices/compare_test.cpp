// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/both_devices/device_fixture.h"

// compare() of graphs of tensors.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

class CompareOfTensors : public OnDevice {
 protected:
  void body() {
    Tensor hidden = torch::relu(torch::matmul(x_, weight_)) * rate_;
    if (divides_) hidden = hidden / torch::zeros_like(hidden);
    y_.copy_(hidden);
    z_.add_(y_);
  }
  CUDAGraph captured() {
    return capture([&] { body(); });
  }
  Comparison compared(const CUDAGraph& graph, const CompareOptions& options = {}) {
    return compare(
        graph, [&] { body(); }, options);
  }

  const torch::NoGradGuard no_grad_;
  Tensor x_ = here(torch::ones({4, 4})), weight_ = here(torch::full({4, 4}, 0.5F)), y_ = here(torch::zeros({4, 4})),
         z_ = here(torch::zeros({4, 4}));
  double rate_ = 0.5;
  bool divides_ = false;
};

TEST_F(CompareOfTensors, FindsNothingWhereTheBodyIsTheSameAndChangesNothing) {
  REPRISE_HOST_ONLY("on CUDA devices it is refused");
  const CUDAGraph graph = captured();
  const Comparison found = compared(graph, {.orders = 3});
  EXPECT_TRUE(found.same()) << found.str();
  EXPECT_GT(found.nodes, 0u);
  EXPECT_TRUE(same(z_, torch::zeros({4, 4})));
}

TEST_F(CompareOfTensors, FindsAnotherWeightAndAnotherTensor) {
  REPRISE_HOST_ONLY("on CUDA devices it is refused");
  const CUDAGraph graph = captured();
  rate_ = 0.25;
  EXPECT_TRUE(compared(graph).difference);
  rate_ = 0.5;
  weight_ = here(torch::full({4, 4}, 2.F));
  EXPECT_TRUE(compared(graph).difference);
}

TEST_F(CompareOfTensors, FindsTheFirstValueThatIsNotFinite) {
  REPRISE_HOST_ONLY("on CUDA devices it is refused");
  divides_ = true;
  EXPECT_TRUE(compared(captured(), {.check_finite = FloatFormat::float32}).not_finite);
}

TEST_F(CompareOfTensors, IsRefusedOnCudaDevices) {
  REPRISE_CUDA_ONLY("on the host device it works");
  body();  // makes the handle of cuBLAS
  z_.zero_();
  CUDAGraph graph = captured();
  try {
    (void)compared(graph);
    ADD_FAILURE() << "not refused";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory is not compared there yet"));
  }
  graph.replay();
  EXPECT_TRUE(same(z_, torch::full({4, 4}, 1.F)));
}

}  // namespace
}  // namespace reprise::libtorch::test
