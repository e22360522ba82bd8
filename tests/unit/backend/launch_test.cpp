// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "reprise/capture.h"
#include "reprise/graph.h"
#include "reprise/kernel.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise {

/// y[i] = a * x[i]
struct ScaleForLaunchTest {
  REPRISE_KERNEL void operator()(Thread t, float a, const float* x, float* y, std::size_t n) const {
    if (t.global_x() < n) y[t.global_x()] = a * x[t.global_x()];
  }
};

namespace {

using memory::test::new_device;
using memory::test::text_of;
using ::testing::HasSubstr;

// y[block] = sum of the block's part of x
struct SumOfBlock {
  REPRISE_KERNEL void operator()(Block& block, const int* x, int* y) const {
    int* const values = block.shared<int>(block.size());
    int* const sum = block.shared<int>(1);
    block.for_each_thread([&](const Thread& t) {
      values[t.rank()] = x[t.global_x()];
      if (t.rank() == 0) *sum = 0;
    });
    block.for_each_thread([&](const Thread& t) { atomic_add(sum, values[t.rank()]); });
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) y[block.block_idx().x] = *sum;
    });
  }
};

// Which thread of which block was here, for a grid in three dimensions.
struct MarkThreads {
  REPRISE_KERNEL void operator()(const Thread& t, int* marks) const {
    const std::size_t width = std::size_t{t.grid_dim.x} * t.block_dim.x;
    const std::size_t height = std::size_t{t.grid_dim.y} * t.block_dim.y;
    atomic_add(&marks[(t.global_z() * height + t.global_y()) * width + t.global_x()], 1);
  }
};

struct MixedParameters {
  REPRISE_KERNEL void operator()(Thread, char, double, short, int*, char) const {}
};

class LaunchTest : public ::testing::Test {
 protected:
  backend::test::FaultyBackend& backend_ = new_device();
  Device device_{backend_};
  Stream stream_{device_};
  StreamGuard guard_{stream_};
};

TEST_F(LaunchTest, RunsAThreadKernelOnceForEachThread) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  const Buffer<float> x{std::span<const float>(values)};
  const Buffer<float> y(values.size());
  launch(x.size(), ScaleForLaunchTest{}, 2, x.data(), y.data(), x.size());
  y.read_async(values);
  stream_.synchronize();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 2.0f * static_cast<float>(i));
}

TEST_F(LaunchTest, MoreThreadsThanAGridHasAreRefusedAndBreakNoCapture) {
  Buffer<float> x(4), y(4);
  const CUDAGraph graph = capture([&] {
    for (const std::size_t threads : {static_cast<std::size_t>(-1), std::size_t{1} << 40}) {
      try {
        launch(threads, ScaleForLaunchTest{}, 2, x.data(), y.data(), x.size());
        ADD_FAILURE() << "not refused";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("launch expected a grid of at most 2147483647 blocks in x; found "));
      }
    }
    launch(x.size(), ScaleForLaunchTest{}, 2, x.data(), y.data(), x.size());
  });
  EXPECT_EQ(graph.node_count(), 1U);
}

TEST_F(LaunchTest, RunsABlockKernelOnceForEachBlockWithSharedMemoryAndBarriers) {
  std::vector<int> values(256);
  std::iota(values.begin(), values.end(), 0);
  const Buffer<int> x{std::span<const int>(values)};
  const Buffer<int> y(4);
  LaunchConfig config{.grid = 4, .block = 64};
  config.shared_bytes = 65 * sizeof(int);
  launch(config, SumOfBlock{}, x.data(), y.data());
  std::vector<int> sums(4);
  y.read_async(sums);
  stream_.synchronize();
  EXPECT_EQ(sums, (std::vector<int>{2016, 6112, 10208, 14304}));
}

TEST_F(LaunchTest, RunsEachThreadOfAGridInThreeDimensionsOnce) {
  LaunchConfig config;
  config.grid = Dim3(3, 2, 4);
  config.block = Dim3(5, 3, 2);
  Buffer<int> marks(3 * 2 * 4 * 5 * 3 * 2);
  marks.fill_bytes_async(0);
  launch(config, MarkThreads{}, marks.data());
  std::vector<int> counts(marks.size());
  marks.read_async(counts);
  stream_.synchronize();
  EXPECT_EQ(counts, std::vector<int>(counts.size(), 1));
}

TEST_F(LaunchTest, KnowsNameAndLayoutOfAKernel) {
  const KernelRecord& record = kernel_record<MixedParameters>();
  EXPECT_THAT(record.name, HasSubstr("MixedParameters"));
  EXPECT_EQ(kernel_record<ScaleForLaunchTest>().name, "reprise::ScaleForLaunchTest");
  ASSERT_EQ(record.params.size(), 5u);
  const std::size_t offsets[] = {0, 8, 16, 24, 32};
  const std::size_t sizes[] = {1, 8, 2, 8, 1};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(record.params[i].offset, offsets[i]);
    EXPECT_EQ(record.params[i].size, sizes[i]);
  }
  EXPECT_EQ(record.params_bytes, 33u);
}

TEST_F(LaunchTest, AKernelThatWasNotCompiledForTheDeviceIsRefusedWithItsName) {
  backend_.fail(backend::Call::kernel_function, ErrorCode::invalid_device_function);
  Buffer<int> marks(1);
  const std::string text = text_of<UsageError>([&] { launch(LaunchConfig{}, MarkThreads{}, marks.data()); });
  EXPECT_THAT(text, HasSubstr("MarkThreads"));
  EXPECT_THAT(text, HasSubstr(device_.str()));
  EXPECT_NO_THROW(launch(LaunchConfig{}, MarkThreads{}, marks.data()));
  stream_.synchronize();
}

TEST_F(LaunchTest, MoreThan48KibOfSharedMemoryIsAskedFor) {
  const Buffer<int> x(32), y(1);
  LaunchConfig config{.grid = 1, .block = 32};
  config.shared_bytes = 48 * 1024;
  launch(config, SumOfBlock{}, x.data(), y.data());
  EXPECT_EQ(backend_.calls(backend::Call::function_set_max_shared), 0);
  config.shared_bytes += 4;
  launch(config, SumOfBlock{}, x.data(), y.data());
  EXPECT_EQ(backend_.calls(backend::Call::function_set_max_shared), 1);
  stream_.synchronize();
}

TEST(SharedMemory, ThatIsNotEnoughSaysHowMuchIs) {
  std::byte memory[64];
  Block block(Dim3(0), Dim3(1), Dim3(1), memory, sizeof memory);
  EXPECT_NE(block.shared<double>(8), nullptr);
  EXPECT_THAT(text_of<Error>([&] { block.shared<char>(1); }), HasSubstr("LaunchConfig::shared_bytes to at least 65"));
}

TEST(NodeTypes, HaveNames) {
  EXPECT_STREQ(backend::node_type_name(backend::NodeType::memcpy), "memcpy");
  EXPECT_STREQ(backend::node_type_name(static_cast<backend::NodeType>(99)), "unknown");
  EXPECT_EQ(backend::node_type(backend::MemsetNodeParams{}), backend::NodeType::memset);
  EXPECT_EQ(backend::node_type(backend::ConditionalNodeParams{}), backend::NodeType::conditional);
}

}  // namespace
}  // namespace reprise
