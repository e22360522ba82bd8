// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "reprise/reprise.h"
#include "tests/fakes/fake_libcuda.h"

// Static objects that are older than the first use of CUDA: the driver shuts down before they end. Each test ends a
// process of its own.

namespace reprise::backend::cuda::test {
namespace {

// Runs a function in its destructor; the process ends with code 1 if that returns false, or throws.
struct AtEnd {
  ~AtEnd() {
    bool good = false;
    try {
      good = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    if (!good) std::_Exit(1);
  }
  std::function<bool()> body;
};

class CudaProcessEnd : public WithFakeLibcuda, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    WithFakeLibcuda::SetUp();
    setenv("FAKE_LIBCUDA_SHUT_DOWN", GetParam(), 1);
    setenv("FAKE_LIBCUDA_VERSION", "12080", 1);  // has no log of errors
  }
};

INSTANTIATE_TEST_SUITE_P(WithCode, CudaProcessEnd, ::testing::Values("4", "709"));

[[noreturn]] void exit_with_objects_that_wait() {
  static std::optional<Stream> stream;
  static std::optional<Event> event;
  static AtEnd at_end;
  const Device device = Device::parse("cuda:0");
  stream.emplace(device);
  event.emplace(device);
  event->record(*stream);
  at_end.body = [device] {
    device.synchronize();
    stream->synchronize();
    event->synchronize();
    const StreamGuard guard(*stream);
    current_stream().synchronize();
    return stream->query() && event->query();
  };
  std::exit(0);
}

TEST_P(CudaProcessEnd, WaitsAreOverAndWhatIsReleasedIsGone) {
  EXPECT_EXIT(exit_with_objects_that_wait(), ::testing::ExitedWithCode(0), "^$");
}

[[noreturn]] void exit_with_an_object_that_works() {
  static AtEnd at_end;
  const Device device = Device::parse("cuda:0");
  device.synchronize();
  at_end.body = [device] {
    try {
      const Stream stream(device);
    } catch (const BackendError& error) {
      return std::string(error.what()).find("the process ends, and CUDA's driver has shut down") != std::string::npos;
    }
    return false;
  };
  std::exit(0);
}

TEST_P(CudaProcessEnd, WorkIsRefusedWithTheCause) {
  EXPECT_EXIT(exit_with_an_object_that_works(), ::testing::ExitedWithCode(0), "^$");
}

// The driver destroys contexts at other times, too: cudaDeviceReset().
[[noreturn]] void exit_after_a_wait_in_a_destroyed_context() {
  const Device device = Device::parse("cuda:0");
  device.synchronize();
  bool threw = false;
  setenv("FAKE_LIBCUDA_RESULT", "709", 1);
  try {
    device.synchronize();
  } catch (const BackendError& error) {
    threw = error.code() == ErrorCode::context_is_destroyed;
  }
  std::_Exit(threw ? 0 : 1);
}

TEST_P(CudaProcessEnd, AContextThatIsDestroyedBeforeIsAnError) {
  EXPECT_EXIT(exit_after_a_wait_in_a_destroyed_context(), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace reprise::backend::cuda::test
