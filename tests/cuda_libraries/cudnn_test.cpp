// SPDX-License-Identifier: Apache-2.0
#include <cudnn.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "tests/cuda_libraries/cuda_test.h"

// cuDNN in captures.

namespace reprise::test {
namespace {

constexpr int value_count = 1000;

// y = max(x, 0)
class Rectifier {
 public:
  Rectifier() {
    EXPECT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateTensorDescriptor(&tensor_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(tensor_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, value_count),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateActivationDescriptor(&activation_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetActivationDescriptor(activation_, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0),
              CUDNN_STATUS_SUCCESS);
  }
  ~Rectifier() {
    EXPECT_EQ(cudnnDestroyActivationDescriptor(activation_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnDestroyTensorDescriptor(tensor_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
  }
  Rectifier(const Rectifier&) = delete;
  Rectifier& operator=(const Rectifier&) = delete;

  void operator()(const Buffer<float>& x, Buffer<float>& y) const {
    const float one = 1, zero = 0;
    EXPECT_EQ(cudnnSetStream(handle_, current_stream().native()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnActivationForward(handle_, activation_, &one, tensor_, x.data(), &zero, tensor_, y.data()),
              CUDNN_STATUS_SUCCESS);
  }

 private:
  cudnnHandle_t handle_ = nullptr;
  cudnnTensorDescriptor_t tensor_ = nullptr;
  cudnnActivationDescriptor_t activation_ = nullptr;
};

class Cudnn : public CudaTest {};

TEST_F(Cudnn, AHandleThatIsMadeInACaptureIsOnTheStackOfTheReport) {
  std::string why;
  if (device().backend().monitor().watch_calls(&why) == nullptr) GTEST_SKIP() << why;
  set_log_sink([](std::string_view) {});
  Buffer<float> x(value_count);
  GraphOptions options;
  options.report = ReportDetail::full;
  cudnnHandle_t handle = nullptr;
  CUDAGraph graph;
  try {
    capture(graph, options, [&] {
      x.fill_bytes_async(0);
      (void)cudnnCreate(&handle);
    });
  } catch (const CaptureError&) {
  }
  (void)cudaGetLastError();
  set_log_sink({});
  if (handle != nullptr) {
    EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  }
  if (!graph.capture_report() || !graph.capture_report()->broken_by) GTEST_SKIP() << "this cuDNN does not mind";
  EXPECT_THAT(graph.capture_report()->str(),
              ::testing::AllOf(::testing::HasSubstr("libcudnn"), ::testing::HasSubstr("GraphOptions::warmup")));
}

TEST_F(Cudnn, ACapturedActivationIsTheEagerOneInEachReplay) {
  const Rectifier rectify;
  Buffer<float> x(whole_numbers(value_count, 1)), y(value_count), z(value_count);
  rectify(x, z);
  current_stream().synchronize();

  CUDAGraph graph;
  capture(graph, [&] { rectify(x, y); });
  EXPECT_GE(graph.node_count(), 1u);
  for (unsigned seed = 1; seed < 5; ++seed) {
    std::vector<float> values = whole_numbers(value_count, seed);
    x.write_async(values);
    y.fill_bytes_async(0xff);
    rectify(x, z);
    graph.replay();
    for (float& value : values) value = std::max(value, 0.0F);
    EXPECT_EQ(read(z), values);
    EXPECT_EQ(read(y), values);
  }
}

}  // namespace
}  // namespace reprise::test
