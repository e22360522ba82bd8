// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/cuda_libraries/cuda_test.h"
#include "tests/cuda_libraries/kernels.cuh"

// Nodes of kernels that were launched with <<<>>>: found by name, changed, and set by parameters.

namespace reprise::test {
namespace {

struct Scaling {
  int factor;
  const int* offsets;
};

/// x = factor * x + offsets, with its parameters in a struct.
__global__ void scale_plainly(int* x, Scaling scaling, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = scaling.factor * x[i] + scaling.offsets[i];
}

class ChangedNodes : public CudaTest {
 protected:
  static Buffer<int> filled(int value) {
    Buffer<int> x(n);
    x.write_async(std::vector<int>(n, value));
    return x;
  }
  static void scale(Buffer<int>& x, int factor, const Buffer<int>& offsets) {
    scale_plainly<<<2, n / 2, 0, current_stream().native()>>>(x.data(), {factor, offsets.data()}, n);
  }
  static void add(Buffer<int>& x, int amount) {
    add_plainly<<<2, n / 2, 0, current_stream().native()>>>(x.data(), amount, n);
  }
};

TEST_F(ChangedNodes, OfPlainKernelsTakeOtherArgumentsShapesAndStates) {
  Buffer<int> x = filled(1), y = filled(0);
  CUDAGraph graph = capture([&] {
    add(x, 1);
    scale(x, 3, y);
  });
  GraphNode added = graph.node("add_plainly");
  EXPECT_EQ(added.arg<int>(1), 1);
  added.set_arg(1, 5);
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(n, 18));
  const std::string size = text_of<UsageError>([&] { added.set_arg(1, std::int64_t{5}); });
  EXPECT_THAT(size, ::testing::HasSubstr("4 bytes"));

  LaunchConfig half = added.launch_config();
  half.grid = 1;
  added.set_params(half);
  graph.node("scale_plainly").set_enabled(false);
  graph.replay();
  std::vector<int> expected(n, 18);
  for (unsigned i = 0; i < n / 2; ++i) expected[i] += 5;
  EXPECT_EQ(read(x), expected);

  half.grid = 2;
  added.set_params(half);
  graph.node("scale_plainly").set_enabled(true);
  x.write_async(std::vector<int>(n, 0));
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(n, 15));
}

TEST_F(ChangedNodes, OfPlainKernelsUseTheAddressesOfParametersAlsoWithinAStruct) {
  Buffer<int> x = filled(1), other = filled(2), y = filled(0), offsets = filled(7);
  CUDAGraph graph = capture([&] {
    add(x, 1);
    scale(x, 3, y);
    copy_async(y.data(), x.data(), sizeof(int));
  });
  const Parameter<int*> of_x = graph.parameter(x.data());
  const Parameter<int*> of_y = graph.parameter(y.data());
  graph.set({{of_x, other.data()}, {of_y, offsets.data()}});
  graph.replay();
  EXPECT_EQ(read(other), std::vector<int>(n, 16));
  EXPECT_EQ(read(offsets).front(), 16);
  EXPECT_EQ(read(x), std::vector<int>(n, 1));
  EXPECT_EQ(read(y), std::vector<int>(n, 0));
  // From inside another block its end is too near: nothing is set, and the replay uses what it did.
  EXPECT_THROW(graph.set(graph.parameter(other.data(), n), x.data() + 1), UsageError);
  graph.replay();
  EXPECT_EQ(read(other)[1], 3 * 17 + 7);
  EXPECT_EQ(read(x), std::vector<int>(n, 1));
}

TEST_F(ChangedNodes, OfPlainKernelsFollowUpdatesAndRecaptures) {
  Buffer<int> x = filled(1), y = filled(0), z = filled(100);
  const auto body = [&](int factor, const Buffer<int>& offsets) {
    add(x, 1);
    scale(x, factor, offsets);
  };
  CUDAGraph graph = capture([&] { body(2, y); });
  const CUDAGraph like = capture([&] { body(3, z); });
  graph.update(like);
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(n, 106));
  EXPECT_TRUE(graph.recapture([&] { body(1, y); }).in_place);
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(n, 107));
  EXPECT_FALSE(graph.recapture([&] { add(x, -7); }).in_place);
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(n, 100));
}

TEST_F(ChangedNodes, OfPlainKernelsAreInBodiesAndChildren) {
  Buffer<int> x = filled(1), y = filled(0);
  Buffer<std::uint32_t> flag(1);
  flag.write_async(std::vector<std::uint32_t>{1});
  const CUDAGraph child = capture([&] { add(x, 10); });
  CUDAGraph graph = capture([&] {
    if_(flag.data(), [&] { scale(x, 2, y); });
    add_child(child);
  });
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(n, 12));
  flag.write_async(std::vector<std::uint32_t>{0});
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(n, 22));
}

}  // namespace
}  // namespace reprise::test
