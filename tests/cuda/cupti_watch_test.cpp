// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/cupti_watch.h"
#include "backend/cuda/cupti/cupti_api.h"

#include <cupti.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/fakes/fake_cupti.h"

// How CUPTI is opened and subscribed to, with a libcupti.so.13 of the tests' own in front of any other. It is opened
// once in a process, so each test has a process of its own.

namespace reprise::backend::cuda::test {
namespace {

using Notify = void (*)(CUpti_CallbackDomain, CUpti_CallbackId, const CUpti_CallbackData*);

// A call as CUPTI reports it, at its beginning or its end.
void notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const char* name, const void* params, bool begins,
            int result = 0) {
  CUpti_CallbackData data{};
  data.callbackSite = begins ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.functionName = name;
  data.functionParams = params;
  data.functionReturnValue = begins ? nullptr : &result;
  find<Notify>("libcupti.so.13", "fake_cupti_notify")(domain, id, &data);
}

void set_capture_status(int status) {
  *find<int*>("libcuda.so.1", "fake_capture_status") = status;
}

class CuptiWatchTest : public FakeCuptiTest {
 protected:
  /// Watches in a process of its own, and expects that it cannot, for this reason.
  static void expect_reason(const std::string& expected) {
    const auto body = [&] {
      std::string why;
      const bool watched = watch_through_cupti(&why) != nullptr;
      if (watched || why != expected) std::fprintf(stderr, "%s\n", why.c_str());
      std::_Exit(watched || why != expected ? 1 : 0);
    };
    EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
  }
};

TEST_F(CuptiWatchTest, TheFirstWatcherSubscribesAndTheLastUnsubscribes) {
  const auto body = [] {
    for (int i = 0; i < 2; ++i) {
      std::string why;
      auto first = watch_through_cupti(&why);
      REQUIRE(first != nullptr && why.empty());
      REQUIRE(has_subscriber());
      auto second = watch_through_cupti(&why);
      REQUIRE(second != nullptr);
      first.reset();
      REQUIRE(has_subscriber());
      second.reset();
      REQUIRE(!has_subscriber());
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CuptiWatchTest, SeesACallBreakACapture) {
  const auto body = [] {
    std::string why;
    int finished = 0;
    on_watched_capture([&](const CaptureFindings&) { ++finished; });
    const auto watch = watch_through_cupti(&why);
    REQUIRE(watch != nullptr);
    const auto stream = reinterpret_cast<CUstream>(0x100);
    cuStreamBeginCapture_v2_params begin{stream, CU_STREAM_CAPTURE_MODE_RELAXED};
    const auto driver = CUPTI_CB_DOMAIN_DRIVER_API;
    const auto runtime = CUPTI_CB_DOMAIN_RUNTIME_API;
    notify(driver, CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2", &begin, true);
    set_capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
    notify(driver, CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2", &begin, false);
    cuStreamSynchronize_params wait{stream};
    notify(runtime, 0, "cudaStreamSynchronize", nullptr, true);
    notify(driver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize", &wait, true);
    set_capture_status(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    notify(driver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize", &wait, false, 900);
    notify(runtime, 0, "cudaStreamSynchronize", nullptr, false, 900);
    const auto findings = describe_watched(stream);
    REQUIRE(findings.has_value());
    REQUIRE(findings->broken_by && findings->broken_by->name == "cudaStreamSynchronize");
    REQUIRE(findings->broken_by->driver_name == "cuStreamSynchronize");
    REQUIRE(findings->broken_by->result == ErrorCode::stream_capture_unsupported);
    REQUIRE(findings->nodes == 7U);
    REQUIRE(finished == 0);
    cuStreamEndCapture_params end{stream, nullptr};
    notify(driver, CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture, "cuStreamEndCapture", &end, true);
    set_capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
    notify(driver, CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture, "cuStreamEndCapture", &end, false, 901);
    REQUIRE(finished == 1);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CuptiWatchTest, SaysThatAnotherToolHoldsTheSubscriber) {
  setenv("FAKE_LIBCUPTI_SUBSCRIBE", "39", 1);
  expect_reason(
      "Another tool holds CUPTI's subscriber, of which there is one in a process (a profiler, a debugger, `reprise "
      "explain`): calls of CUDA are not watched.");
}

#if CUPTI_API_VERSION >= 130000  // CUPTI 12 does not know it
TEST_F(CuptiWatchTest, NamesTheToolThatHoldsTheSubscriber) {
  setenv("FAKE_LIBCUPTI_SUBSCRIBE", "39", 1);
  setenv("FAKE_LIBCUPTI_HOLDER", "Nsight Systems", 1);
  expect_reason(
      "Another tool (Nsight Systems) holds CUPTI's subscriber, of which there is one in a process (a profiler, a "
      "debugger, `reprise explain`): calls of CUDA are not watched.");
}
#endif

TEST_F(CuptiWatchTest, NotifysWhatCuptiSays) {
  setenv("FAKE_LIBCUPTI_SUBSCRIBE", "15", 1);
  expect_reason("Calls of CUDA cannot be watched: cuptiSubscribe of " FAKE_LIBCUPTI_DIRECTORY
                "/libcupti.so.13 returned 15 (CUPTI_ERROR_OF_A_TEST).");
}

TEST_F(CuptiWatchTest, UnsubscribesIfCallsCannotBeEnabled) {
  setenv("FAKE_LIBCUPTI_ENABLE", "2", 1);
  const auto body = [] {
    std::string why;
    REQUIRE(watch_through_cupti(&why) == nullptr);
    REQUIRE(why.find("cuptiEnableDomain") != std::string::npos);
    REQUIRE(!has_subscriber());
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

TEST_F(CuptiWatchTest, NamesAFunctionThatIsMissing) {
  setenv("LD_LIBRARY_PATH", FAKE_LIBCUPTI_DIRECTORY "/lacking", 1);
  expect_reason("Calls of CUDA cannot be watched: " FAKE_LIBCUPTI_DIRECTORY
                "/lacking/libcupti.so.13 has no cuptiEnableDomain.");
}

TEST_F(CuptiWatchTest, TakesTheLibraryThatTheProcessHasAlready) {
  setenv("LD_LIBRARY_PATH", FAKE_LIBCUPTI_DIRECTORY "/lacking", 1);
  const auto body = [] {
    // The loader does not know it by the name that is looked for.
    REQUIRE(dlopen(FAKE_LIBCUPTI_DIRECTORY "/renamed/libcupti.so.13.1", RTLD_NOW) != nullptr);
    std::string why;
    const auto watch = watch_through_cupti(&why);
    REQUIRE(watch != nullptr);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
}

/// The file of CUPTI that a process with a driver of this version opens; both versions of CUPTI are there.
std::string file_with_driver(const char* version) {
  setenv("FAKE_LIBCUDA_VERSION", version, 1);
  REQUIRE(dlopen("libcuda.so.1", RTLD_NOW) != nullptr);
  return opened_cupti().file;
}

TEST_F(CuptiWatchTest, OpensTheVersionThatTheDriverIsMadeFor) {
  setenv("LD_LIBRARY_PATH", FAKE_LIBCUPTI_DIRECTORY ":" FAKE_LIBCUPTI_DIRECTORY "/twelve:" FAKE_LIBCUDA_DIRECTORY, 1);
  const auto body = [](const char* driver, const char* expected) {
    REQUIRE(file_with_driver(driver) == expected);
    std::_Exit(0);
  };
  EXPECT_EXIT(body("13000", FAKE_LIBCUPTI_DIRECTORY "/libcupti.so.13"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(body("12080", FAKE_LIBCUPTI_DIRECTORY "/twelve/libcupti.so.12"), ::testing::ExitedWithCode(0), "");
}

TEST_F(CuptiWatchTest, OpensTheOlderVersionIfThereIsNoOther) {
  setenv("LD_LIBRARY_PATH", FAKE_LIBCUPTI_DIRECTORY "/twelve:" FAKE_LIBCUDA_DIRECTORY, 1);
  setenv("CUDA_HOME", "/nowhere", 1);
  const auto body = [] {
    const std::string file = file_with_driver("13000");
    REQUIRE(file == FAKE_LIBCUPTI_DIRECTORY "/twelve/libcupti.so.12" || file.starts_with("/usr/local/cuda"));
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
  unsetenv("CUDA_HOME");
}

TEST_F(CuptiWatchTest, FindsTheLibraryInTheToolkitIfTheLoaderHasNone) {
  // A file that is no library: the loader looks no further.
  setenv("LD_LIBRARY_PATH", FAKE_LIBCUPTI_DIRECTORY "/broken", 1);
  setenv("CUDA_HOME", FAKE_LIBCUPTI_DIRECTORY "/toolkit", 1);
  const auto body = [] {
    std::string why;
    const auto watch = watch_through_cupti(&why);
    REQUIRE(watch != nullptr);
    REQUIRE(dlopen(FAKE_LIBCUPTI_DIRECTORY "/toolkit/lib64/libcupti.so.13", RTLD_NOW | RTLD_NOLOAD) != nullptr);
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "");
  unsetenv("CUDA_HOME");
}

}  // namespace
}  // namespace reprise::backend::cuda::test
