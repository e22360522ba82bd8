// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/driver_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "reprise/device.h"
#include "reprise/error.h"
#include "tests/fakes/fake_libcuda.h"

// How the driver is opened.

namespace reprise::backend::cuda::test {
namespace {

class DriverApiTest : public WithFakeLibcuda {
 protected:
  /// Opens the driver in a process of its own, and expects this reason for no device.
  static void expect_reason(const char* expected) {
    const auto body = [&] {
      const std::string& reason = opened_driver().unavailable;
      if (reason != expected) std::fprintf(stderr, "%s\n", reason.c_str());
      std::_Exit(reason == expected ? 0 : 1);
    };
    EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
  }
};

TEST_F(DriverApiTest, FindsEveryFunctionAndTheDevices) {
  const auto body = [] {
    const OpenedDriver& driver = opened_driver();
    std::_Exit(driver.unavailable.empty() && driver.device_count == 2 ? 0 : 1);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

TEST_F(DriverApiTest, NamesTheCodesThatThisLibraryDoesNotKnow) {
  const auto body = [] {
    const std::string before = result_name(static_cast<ErrorCode>(716));
    static_cast<void>(opened_driver());
    const std::string known = result_name(static_cast<ErrorCode>(716));
    const std::string unknown = result_name(static_cast<ErrorCode>(12345));
    std::_Exit(before == "cudaErrorUnknown" && known == "CUDA_ERROR_MISALIGNED_ADDRESS" && unknown == "cudaErrorUnknown"
                   ? 0
                   : 1);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

/// What a driver of each version has and the ones before it lack.
void expect_functions_of(int version) {
  const OpenedDriver& driver = opened_driver();
  const DriverApi& api = driver.api;
  const bool all = driver.unavailable.empty() && api.version == version && api.cuEventElapsedTime != nullptr &&
                   (api.cuStreamGetDevice != nullptr) == (version >= 12080) &&
                   (api.cuLogsCurrent != nullptr) == (version >= 12090) &&
                   (api.cuLogsDumpToMemory != nullptr) == (version >= 12090) &&
                   (api.cuGraphNodeGetToolsId != nullptr) == (version >= 13010) &&
                   (api.cuGraphExecGetId != nullptr) == (version >= 13010);
  std::_Exit(all ? 0 : 1);
}

TEST_F(DriverApiTest, FindsWhatADriverOfEachVersionHas) {
  for (const int version : {12040, 12060, 12080, 12090, 13000, 13010}) {
    setenv("FAKE_LIBCUDA_VERSION", std::to_string(version).c_str(), 1);
    EXPECT_EXIT(expect_functions_of(version), ::testing::ExitedWithCode(0), "") << version;
  }
}

TEST_F(DriverApiTest, RefusesADriverOfAnOlderCuda) {
  setenv("FAKE_LIBCUDA_VERSION", "12030", 1);
  expect_reason("the driver in libcuda.so.1 is older than CUDA 12.4, which is needed; found: CUDA 12.3");
}

TEST_F(DriverApiTest, TellsWhatCuInitSays) {
  setenv("FAKE_LIBCUDA_INIT", "100", 1);
  expect_reason(
      "libcuda.so.1 is there, but cuInit returned 100 (cudaErrorNoDevice): no device was found; a driver of "
      "CUDA 12.4 or newer is needed; found: CUDA 13.0");
}

TEST_F(DriverApiTest, NamesAFunctionThatIsMissing) {
  setenv("FAKE_LIBCUDA_LACKS", "cuGraphAddNode", 1);
  expect_reason(
      "the driver in libcuda.so.1 lacks cuGraphAddNode, which CUDA 12.4 has and this library needs; found: "
      "CUDA 13.0");
}

// --- Warnings about GPUs that are passed over -----------------------------------------------------------------------

class PassedOverGpus : public DriverApiTest {
 protected:
  void SetUp() override {
    DriverApiTest::SetUp();
    unsetenv("REPRISE_DEVICE");
  }
  void TearDown() override {
    setenv("REPRISE_DEVICE", "host", 1);
    DriverApiTest::TearDown();
  }

  /// Looks for devices several times in a process of its own, and expects these warnings on standard error.
  static void expect_warnings(const std::string& expected) {
    const auto body = [] {
      std::vector<std::string> warnings;
      set_log_sink([&](std::string_view text) { warnings.emplace_back(text); });
      std::thread([] { (void)cuda_backends(); }).join();
      (void)cuda_backends();
      (void)default_device();
      (void)devices();
      for (const std::string& each : warnings) std::fprintf(stderr, "[%s]", each.c_str());
      std::_Exit(0);
    };
    EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), ::testing::Eq(expected));
  }
};

constexpr const char* too_old =
    "[The GPUs of this machine are not used: the driver in libcuda.so.1 is older than CUDA 12.4, which is needed; "
    "found: CUDA 12.3. Install a driver that fits; REPRISE_DEVICE=host silences this warning.]";

TEST_F(PassedOverGpus, OfADriverThatIsTooOldGiveOneWarning) {
  setenv("FAKE_LIBCUDA_VERSION", "12030", 1);
  expect_warnings(too_old);
}

TEST_F(PassedOverGpus, OfADriverWithoutAFunctionGiveOneWarning) {
  setenv("FAKE_LIBCUDA_LACKS", "cuGraphAddNode", 1);
  expect_warnings(
      "[The GPUs of this machine are not used: the driver in libcuda.so.1 lacks cuGraphAddNode, which CUDA 12.4 "
      "has and this library needs; found: CUDA 13.0. Install a driver that fits; REPRISE_DEVICE=host silences this "
      "warning.]");
}

TEST_F(PassedOverGpus, OfADriverThatCannotBeginGiveOneWarning) {
  setenv("FAKE_LIBCUDA_INIT", "803", 1);
  expect_warnings(
      "[The GPUs of this machine are not used: libcuda.so.1 is there, but cuInit returned 803 "
      "(cudaErrorSystemDriverMismatch): " +
      std::string(result_description(static_cast<ErrorCode>(803))) +
      "; a driver of CUDA 12.4 or newer is needed; found: CUDA 13.0. Install a driver that fits; REPRISE_DEVICE=host "
      "silences this warning.]");
}

TEST_F(PassedOverGpus, OfADriverThatCannotCountThemGiveOneWarning) {
  setenv("FAKE_LIBCUDA_DEVICES", "-999", 1);
  expect_warnings(
      "[The GPUs of this machine are not used: libcuda.so.1 is there, but cuDeviceGetCount returned 999 "
      "(cudaErrorUnknown): " +
      std::string(result_description(ErrorCode::unknown)) +
      ". Install a driver that fits; REPRISE_DEVICE=host silences this warning.]");
}

TEST_F(PassedOverGpus, AreNotWarnedAboutWhereTheHostDeviceWasChosen) {
  setenv("FAKE_LIBCUDA_VERSION", "12030", 1);
  for (const char* name : {"host", "host:0"}) {
    setenv("REPRISE_DEVICE", name, 1);
    expect_warnings("");
  }
}

TEST_F(PassedOverGpus, AreNotWarnedAboutWhereThereAreNone) {
  setenv("FAKE_LIBCUDA_VERSION", "12030", 1);
  setenv("FAKE_LIBCUDA_DEVICES", "0", 1);
  expect_warnings("");
  setenv("FAKE_LIBCUDA_VERSION", "13000", 1);
  expect_warnings("");
  setenv("FAKE_LIBCUDA_INIT", "100", 1);  // as with CUDA_VISIBLE_DEVICES=-1
  expect_warnings("");
  setenv("FAKE_LIBCUDA_INIT", "34", 1);  // a stub for linking
  expect_warnings("");
  setenv("LD_LIBRARY_PATH", "/nowhere", 1);
  expect_warnings("");
}

TEST_F(PassedOverGpus, GiveNoWarningWhenTheyAreUsed) {
  expect_warnings("");
}

}  // namespace
}  // namespace reprise::backend::cuda::test
