// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string>

#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/support/text_of.h"

// Tensors in the bodies of conditional nodes.

namespace reprise::libtorch::test {
namespace {

using reprise::test::text_of;
using ::testing::HasSubstr;

class ControlFlowOfTensors : public OnDevice {
 protected:
  /// One word that operators of tensors write: kInt has the size of the condition.
  const std::uint32_t* condition() const { return reinterpret_cast<const std::uint32_t*>(flag_.data_ptr()); }

  Tensor flag_ = torch::zeros({1}, torch::TensorOptions(torch::kInt).device(device_));
  Tensor x_ = torch::ones({8}, device_);
  CUDAGraph graph_;
};

TEST_F(ControlFlowOfTensors, ALoopDoublesUntilTheDeviceEndsIt) {
  Loop loop;
  capture(graph_, [&] {
    loop = while_(condition(),
                  [&] {
                    x_.mul_(2);
                    flag_.copy_(torch::lt(x_.sum(), 1000).to(torch::kInt).view({1}));
                  },
                  {.max_iterations = 100});
  });
  flag_.fill_(1);
  graph_.replay();
  EXPECT_TRUE(same(x_, torch::full({8}, 128.0F)));
  EXPECT_EQ(loop.last_run().iterations, 7U);
}

TEST_F(ControlFlowOfTensors, TensorsOfABodyLieInThePoolOfTheGraph) {
  Tensor inside;
  capture(graph_, [&] {
    if_(condition(), [&] { inside = x_ * 3; });
    x_.add_(inside);
  });
  flag_.fill_(1);
  graph_.replay();
  EXPECT_TRUE(same(inside, torch::full({8}, 3.0F)));
  EXPECT_TRUE(same(x_, torch::full({8}, 4.0F)));
}

TEST_F(ControlFlowOfTensors, ATensorFromAroundALoopThatIsFreedInItIsNotGivenOutInIt) {
  capture(graph_, [&] {
    std::optional<Tensor> outside = torch::full({8}, 5.0F, device_);
    while_(condition(), [&] {
      x_.add_(*outside);  // in each iteration
      const void* const address = outside->data_ptr();
      outside.reset();
      const Tensor other = torch::zeros({8}, device_);
      EXPECT_NE(other.data_ptr(), address);
      flag_.sub_(1);
    });
  });
  flag_.fill_(3);
  graph_.replay();
  EXPECT_TRUE(same(x_, torch::full({8}, 16.0F)));
}

TEST_F(ControlFlowOfTensors, InputsOfABodyAreFound) {
  Tensor input = torch::ones({8}, device_);
  capture(graph_, GraphOptions{.check_input_liveness = true}, [&] { if_(condition(), [&] { x_.add_(input); }); });
  EXPECT_THAT(input_addresses(graph_), ::testing::Contains(input.data_ptr()));
  graph_.replay();
  input.reset();
  if (device_.is_privateuseone()) {
    EXPECT_THAT(text_of<Error>([&] { graph_.replay(); }), HasSubstr("freed"));
  }
}

TEST_F(ControlFlowOfTensors, NumbersDrawnInABodyCountWhetherItRunsOrNot) {
  Tensor drawn = torch::zeros({4}, device_);
  capture(graph_, [&] {
    if_(condition(), [&] { drawn.uniform_(); });
    x_.uniform_();
  });
  torch::manual_seed(7);
  const Tensor first = torch::rand({4}, device_), second = torch::rand({8}, device_);
  for (const int runs : {0, 1}) {
    torch::manual_seed(7);
    flag_.fill_(runs);
    graph_.replay();
    EXPECT_TRUE(same(x_, second));
    EXPECT_EQ(same(drawn, first), runs != 0);
  }
}

TEST_F(ControlFlowOfTensors, DrawsInALoopAreRefusedWhereEachIterationWouldRepeatThem) {
  REPRISE_CUDA_ONLY("the host device's generators draw other numbers in each iteration");
  const std::string what = text_of<UsageError>([&] {
    capture(graph_, [&] {
      while_(condition(),
             [&] {
               x_.uniform_();
               flag_.sub_(1);
             },
             {.max_iterations = 3});
    });
  });
  EXPECT_THAT(what, HasSubstr("in the body of a while_"));
}

TEST_F(ControlFlowOfTensors, OnTheHostDeviceALoopDrawsOtherNumbersInEachIteration) {
  REPRISE_HOST_ONLY("refused on CUDA, see above");
  Tensor sum = torch::zeros({8}, device_);
  capture(graph_, [&] {
    while_(condition(),
           [&] {
             sum.add_(torch::rand({8}, device_));
             flag_.sub_(1);
           },
           {.max_iterations = 3});
  });
  torch::manual_seed(9);
  Tensor expected = torch::zeros({8}, device_);
  for (int i = 0; i < 3; ++i) expected.add_(torch::rand({8}, device_));
  torch::manual_seed(9);
  flag_.fill_(3);
  graph_.replay();
  EXPECT_TRUE(same(sum, expected));
}

}  // namespace
}  // namespace reprise::libtorch::test
