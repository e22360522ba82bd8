// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>

#include "backend/backend.h"
#include "tests/cuda_libraries/cuda_test.h"
#include "tests/cuda_libraries/kernels.cuh"
#include "tests/cuda_libraries/launch_packed.h"

// Frozen values in kernels that this library knows nothing of.

namespace reprise::test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

__global__ void add(float* x, int step, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] += static_cast<float>(step);
}

struct RateArguments {
  char flag;
  float rate;
  float* x;
};
__global__ void add_arguments(const RateArguments arguments) {
  arguments.x[threadIdx.x] += arguments.rate;
}

/// Our own kind of kernel, whose struct has no padding.
struct Steps {
  float* x = nullptr;
  int first = 0;
  int second = 0;
};
struct AddSteps {
  REPRISE_KERNEL void operator()(Thread, Steps steps) const { *steps.x += static_cast<float>(steps.first); }
};

/// Likewise, with padding and with floating-point members.
struct Rates {
  float first = 0;
  float second = 0;
  float* x = nullptr;
  float third = 0;
};
struct AddRates {
  REPRISE_KERNEL void operator()(Thread, Rates rates) const { *rates.x += rates.first + rates.second + rates.third; }
};

class FrozenValuesOnCuda : public CudaTest {
 protected:
  template <class Body>
  FrozenValuesError refusal(const Body& body) {
    try {
      capture_checked(body);
    } catch (const FrozenValuesError& error) {
      std::printf("%s", error.what());
      return error;
    }
    ADD_FAILURE() << "nothing was refused";
    return FrozenValuesError("", {});
  }
  template <class Body>
  void capture_checked(const Body& body) {
    capture(graph_, {.check_frozen_values = [this] { ++i_; }}, body);
  }
  /// Expects the step of one launch of `add` with `i_`.
  static void expect_step_is_named(const FrozenValuesError& error) {
    ASSERT_THAT(error.values(), SizeIs(1));
    EXPECT_THAT(error.values()[0].node, HasSubstr("add (node 0)"));
    EXPECT_EQ(error.values()[0].parameter, 1U);
    EXPECT_EQ(error.values()[0].first, 0U);
    EXPECT_EQ(error.values()[0].second, 1U);
    EXPECT_FALSE(error.values()[0].perhaps);
  }
  Buffer<float> zeros() {
    Buffer<float> x(n);
    x.fill_bytes_async(0);
    current_stream().synchronize();
    return x;
  }

  int i_ = 0;
  CUDAGraph graph_;
};

TEST_F(FrozenValuesOnCuda, ANumberOfAPlainLaunchIsNamed) {
  Buffer<float> x = zeros();
  expect_step_is_named(refusal([&] { add<<<1, n, 0, current_stream().native()>>>(x.data(), i_, n); }));
}

TEST_F(FrozenValuesOnCuda, ANumberAmongPackedArgumentsIsNamed) {
  Buffer<float> x = zeros();
  expect_step_is_named(refusal([&] {
    struct {
      float* x;
      int step;
      unsigned count;
    } block{x.data(), i_, n};
    launch_packed(reinterpret_cast<const void*>(&add), n, &block, sizeof block);
  }));
}

TEST_F(FrozenValuesOnCuda, MembersOfAStructOfAForeignKernelArePerhaps) {
  Buffer<float> x = zeros();
  const FrozenValuesError error = refusal([&] {
    RateArguments arguments;
    std::memset(&arguments, 0, sizeof arguments);  // the padding, too
    arguments.rate = static_cast<float>(i_);
    arguments.x = x.data();
    add_arguments<<<1, n, 0, current_stream().native()>>>(arguments);
    add<<<1, n, 0, current_stream().native()>>>(x.data(), i_, n);
  });
  ASSERT_THAT(error.values(), SizeIs(2));
  EXPECT_FALSE(error.values()[0].perhaps);
  EXPECT_TRUE(error.values()[1].perhaps);
  EXPECT_EQ(error.values()[1].offset, 4U);
}

TEST_F(FrozenValuesOnCuda, MembersOfAStructOfOurKernelAreCertain) {
  Buffer<float> x = zeros();
  const FrozenValuesError error = refusal([&] {
    launch(LaunchConfig::cover(1, 1), AddSteps{}, Steps{x.data(), 3 + i_, 4});
  });
  ASSERT_THAT(error.values(), SizeIs(1));
  EXPECT_EQ(error.values()[0].offset, 8U);
  EXPECT_FALSE(error.values()[0].perhaps);

  const FrozenValuesError rates = refusal([&] {
    launch(LaunchConfig::cover(1, 1), AddRates{}, Rates{1, 0.5F * static_cast<float>(i_), x.data(), 2});
  });
  ASSERT_THAT(rates.values(), SizeIs(1)) << "padding does not count";
  EXPECT_EQ(rates.values()[0].offset, 4U);
  EXPECT_EQ(rates.values()[0].bytes, 4U);
  EXPECT_FALSE(rates.values()[0].perhaps);
}

TEST_F(FrozenValuesOnCuda, MemoryOfTheBodyAndRandomNumbersMayDiffer) {
  Buffer<float> x = zeros();
  capture_checked([&] {
    Buffer<float> scratch(n);
    scratch.fill_bytes_async(0);
    void* of_node = nullptr;
    EXPECT_EQ(cudaMallocAsync(&of_node, n * sizeof(float), current_stream().native()), cudaSuccess);
    add<<<1, n, 0, current_stream().native()>>>(static_cast<float*>(of_node), 1, n);
    EXPECT_EQ(cudaFreeAsync(of_node, current_stream().native()), cudaSuccess);
    static_cast<void>(default_generator().philox_state(4));
    copy_async(x.data(), scratch.data(), n * sizeof(float));
    add<<<1, n, 0, current_stream().native()>>>(x.data(), 2, n);
  });
  graph_.replay();
  EXPECT_EQ(read(x).front(), 2.0F);
}

TEST_F(FrozenValuesOnCuda, SizesOfCopiesAndValuesOfSetsAreNamed) {
  Buffer<float> x = zeros(), y = zeros();
  const FrozenValuesError error = refusal([&] {
    copy_async(y.data(), x.data(), sizeof(float) * static_cast<std::size_t>(1 + i_));
    fill_async(x.data(), static_cast<unsigned char>(i_), n);
  });
  ASSERT_THAT(error.values(), SizeIs(2));
  EXPECT_EQ(error.values()[0].member, "bytes");
  EXPECT_EQ(error.values()[1].member, "value");
}

}  // namespace
}  // namespace reprise::test
