// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/both_devices/device_fixture.h"

// Parameters of the addresses that operators of tensors use.

namespace reprise::libtorch::test {
namespace {

using ::testing::Contains;
using ::testing::Not;

class ParametersOfTensors : public OnDevice {
 protected:
  Tensor ramp(float factor) const { return here(torch::arange(8, torch::kFloat) * factor); }
  static float* data_of(const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }
  void replay(CUDAGraph& graph) const {
    graph.replay();
    here_.synchronize();
  }
};

TEST_F(ParametersOfTensors, MoveWhatOperatorsReadAndWrite) {
  const Tensor x = ramp(1), other = ramp(10), other_out = here(torch::zeros(8));
  Tensor out = here(torch::zeros(8));
  CUDAGraph graph = capture([&] {
    torch::add_out(out, x, x);
    out.narrow(0, 0, 4).add_(x.narrow(0, 4, 4));
  });
  const auto expected = [](const Tensor& from) {
    const Tensor result = from * 2;
    result.narrow(0, 0, 4).add_(from.narrow(0, 4, 4));
    return result;
  };
  const Parameter<float*> source = graph.parameter(data_of(x), 8), target = graph.parameter(data_of(out));
  replay(graph);
  EXPECT_TRUE(same(out, expected(x)));
  graph.set({{source, data_of(other)}, {target, data_of(other_out)}});
  EXPECT_EQ(graph.get(source), data_of(other));
  const Tensor before = out.clone();
  replay(graph);
  EXPECT_TRUE(same(other_out, expected(other)));
  EXPECT_TRUE(same(out, before)) << "no node uses it any more";
  graph.set({{source, data_of(x)}, {target, data_of(out)}});
  other_out.zero_();
  replay(graph);
  EXPECT_TRUE(same(out, expected(x)));
  EXPECT_TRUE(same(other_out, torch::zeros(8)));
}

TEST_F(ParametersOfTensors, StayThoseOfTheGraphAfterARecapture) {
  const Tensor x = ramp(1), other = ramp(10);
  Tensor out = here(torch::zeros(8));
  const auto body = [&] { torch::add_out(out, x, x); };
  CUDAGraph graph = capture(body);
  graph.set(graph.parameter(data_of(x)), data_of(other));
  graph.recapture(body);
  replay(graph);
  EXPECT_TRUE(same(out, x * 2)) << "as the body has it";
  graph.set(graph.parameter(data_of(x)), data_of(other));
  replay(graph);
  EXPECT_TRUE(same(out, other * 2));
}

TEST_F(ParametersOfTensors, AreFollowedByInputs) {
  const Tensor x = ramp(1), other = ramp(10);
  Tensor out = here(torch::zeros(8));
  GraphOptions options;
  options.check_input_liveness = true;
  CUDAGraph graph = capture(options, [&] { torch::add_out(out, x, x); });
  EXPECT_THAT(input_addresses(graph), Contains(data_of(x)));
  graph.set(graph.parameter(data_of(x)), data_of(other));
  EXPECT_THAT(input_addresses(graph), Contains(data_of(other)));
  EXPECT_THAT(input_addresses(graph), Not(Contains(data_of(x))));
}

TEST_F(ParametersOfTensors, ANewTensorAtTheAddressOfAFreedOneCountsOnceItIsSet) {
  Tensor x = ramp(1), out = here(torch::zeros(8));
  GraphOptions options;
  options.check_input_liveness = true;
  CUDAGraph graph = capture(options, [&] { torch::add_out(out, x, x); });
  const Parameter<float*> source = graph.parameter(data_of(x), 8);
  float* const address = data_of(x);
  x.reset();
  x = ramp(10);
  for (std::vector<Tensor> others; data_of(x) != address && others.size() < 100; x = ramp(10)) others.push_back(x);
  ASSERT_EQ(data_of(x), address);
  EXPECT_THROW(graph.replay(), DeadInputError);
  graph.set(source, address);
  replay(graph);
  EXPECT_TRUE(same(out, x * 2));
}

}  // namespace
}  // namespace reprise::libtorch::test
