// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>

#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Static objects that use the library when they end: libtorch's objects of the main thread are gone by then, and those
// that are older than the first use of CUDA end after the driver, too. Each test ends a process of its own.

namespace reprise::libtorch::test {
namespace {

// Runs a function in its destructor; the process ends with code 1 if that returns false, or throws.
struct AtEnd {
  ~AtEnd() {
    bool good = false;
    try {
      good = body == nullptr || body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    if (!good) std::_Exit(1);
  }
  std::function<bool()> body;
};

struct Objects {
  std::optional<Stream> stream;
  AtEnd after;
  std::optional<StreamGuard> guard;
  std::optional<CUDAGraph> graph;
  AtEnd before;

  void make(const Device& device) {
    stream.emplace(device);
    guard.emplace(*stream);
    graph.emplace();
    const Tensor x = torch::zeros({8}, torch::Device(torch::kCUDA, 0));
    capture(*graph, [&] { x.add_(1); });
    graph->replay();
    graph->retain(std::make_shared<Tensor>(x));
    before.body = [this, device] {
      current_stream(device).synchronize();
      device.synchronize();
      return current_stream(device) == stream->ref() && current_stream(device).query();
    };
    after.body = [device] {
      current_stream(device).synchronize();
      return current_stream(device) == device.default_stream();
    };
  }
};

Objects older_than_cuda;

class CudaTensorProcessEnd : public OnCudaDevice {
 protected:
  void SetUp() override {
    OnCudaDevice::SetUp();
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }

  [[noreturn]] static void exit_with_older_objects() {
    older_than_cuda.make(Device::parse("cuda:0"));
    std::exit(0);
  }
  [[noreturn]] static void exit_with_younger_objects() {
    static Objects objects;
    objects.make(Device::parse("cuda:0"));
    std::exit(0);
  }
};

TEST_F(CudaTensorProcessEnd, ComesAfterTheDriverForObjectsThatAreOlderThanCuda) {
  EXPECT_EXIT(exit_with_older_objects(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CudaTensorProcessEnd, RestoresStreamsThatLibtorchKeepsNoLonger) {
  EXPECT_EXIT(exit_with_younger_objects(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::libtorch::test
