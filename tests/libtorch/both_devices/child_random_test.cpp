// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/libtorch/both_devices/device_fixture.h"

// Random numbers of tensors in graphs within graphs: those of eager calls in the same order.

namespace reprise::libtorch::test {
namespace {

class RandomTensorsOfChildren : public OnDevice {
 protected:
  void SetUp() override { seed(); }

  void seed() { generator_.set_current_seed(7); }
  void uniform() { a_.uniform_(); }
  void keep(std::int64_t row) { rows_.select(0, row).copy_(a_); }

  /// Three of the child's draws, then one of the parent's.
  void draw_in_turn(const std::function<void()>& child) {
    for (int i = 0; i < 3; ++i) {
      child();
      keep(i);
    }
    a_.normal_();
    keep(3);
  }
  Tensor found() const { return torch::cat({rows_.cpu(), a_.cpu().view({1, 64})}); }

  using Steps = std::vector<std::function<void()>>;
  std::vector<Tensor> results(const Steps& steps) {
    seed();
    rows_.zero_();
    std::vector<Tensor> all;
    for (const auto& step : steps) {
      step();
      all.push_back(found());
    }
    return all;
  }
  void expect_equal(const Steps& graphs, const Steps& eagerly) {
    const std::vector<Tensor> with_graphs = results(graphs), expected = results(eagerly);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(with_graphs[i], expected[i])) << "step " << i;
  }

  at::Generator generator_ = at::globalContext().defaultGenerator(device_);
  Tensor a_ = torch::zeros({64}, device_), rows_ = torch::zeros({4, 64}, device_);
};

TEST_F(RandomTensorsOfChildren, AreDrawnInTheirPlaceAmongThoseOfTheParent) {
  CUDAGraph child = capture([&] { uniform(); });
  CUDAGraph parent = capture([&] { draw_in_turn([&] { add_child(child); }); });
  const auto parents = [&] { parent.replay(); };
  const auto eagerly = [&] { draw_in_turn([&] { uniform(); }); };
  expect_equal({parents, [&] { child.replay(); }, parents}, {eagerly, [&] { uniform(); }, eagerly});
}

TEST_F(RandomTensorsOfChildren, OfSeveralChildrenAreDrawnInTurn) {
  CUDAGraph first = capture([&] { uniform(); }), second = capture([&] { a_.normal_(); });
  CUDAGraph middle = capture([&] {
    add_child(second);
    keep(2);
    a_.normal_();
  });
  CUDAGraph parent = capture([&] {
    add_child(first);
    keep(0);
    add_child(second);
    keep(1);
    add_child(middle);
    keep(3);
    add_child(first);
  });
  const auto parents = [&] { parent.replay(); };
  const auto eagerly = [&] {
    uniform();
    keep(0);
    a_.normal_();
    keep(1);
    a_.normal_();
    keep(2);
    a_.normal_();
    keep(3);
    uniform();
  };
  expect_equal({parents, parents, [&] { uniform(); }, parents}, {eagerly, eagerly, [&] { uniform(); }, eagerly});
}

TEST_F(RandomTensorsOfChildren, InALoopAreOthersInEachIteration) {
  const Tensor left = torch::zeros({1}, torch::TensorOptions(torch::kInt).device(device_));
  CUDAGraph child = capture([&] { uniform(); });
  CUDAGraph parent = capture([&] {
    uniform();
    keep(3);
    while_(reinterpret_cast<const std::uint32_t*>(left.data_ptr()),
           [&] {
             add_child(child);
             rows_.copy_(rows_.roll(1, 0));
             keep(0);
             left.sub_(1);
           },
           {.max_iterations = 3});
    uniform();
  });
  const auto parents = [&] {
    left.fill_(3);
    parent.replay();
  };
  const auto eagerly = [&] {
    uniform();
    keep(3);
    for (int i = 0; i < 3; ++i) {
      uniform();
      rows_.copy_(rows_.roll(1, 0));
      keep(0);
    }
    uniform();
  };
  expect_equal({parents, parents}, {eagerly, eagerly});
}

}  // namespace
}  // namespace reprise::libtorch::test
