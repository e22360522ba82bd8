// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cuda/driver_api.h"
#include "reprise/reprise.h"
#include "tests/fakes/fake_libcuda.h"
#include "tests/support/faulty_backend.h"

// Which code of the library's own kernels a driver of each version is given.

namespace reprise::backend::cuda::test {
namespace {

using ::testing::HasSubstr;

class OwnKernels : public WithFakeLibcuda {
 protected:
  /// Prints the reasons in a process of its own, in lines, and the beginning of what the driver is given.
  [[noreturn]] static void print() {
    std::fprintf(stderr, "kernels: %s|\n", own_kernels_unavailable().c_str());
    std::fprintf(stderr, "condition: %s|\n", condition_kernel_unavailable().c_str());
    KernelRecord kernel{};
    kernel.symbol = "reprise_copy_batch";
    FunctionHandle function = nullptr;
    if (own_kernels_unavailable().empty() && find_own_kernel(kernel, &function) == CUDA_SUCCESS) {
      void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
      const auto* const code = *static_cast<const char**>(dlsym(library, "fake_loaded_code"));
      // A fat binary begins with a magic number, PTX with a comment.
      std::fprintf(stderr, "loads %s\n", std::memcmp(code, "\x50\xed\x55\xba", 4) == 0 ? "machine code" : "PTX");
      if (*code == '/') std::fprintf(stderr, "%s", code);
    }
    std::_Exit(0);
  }
};

/// value[0] = 1
struct SetOne {
  REPRISE_KERNEL void operator()(Thread, std::uint32_t* value) const { *value = 1; }
};

// The host device does the work of the one that this driver has.
[[noreturn]] void capture_branches() {
  auto& device_of_driver = *new backend::test::FaultyBackend(*host_backends().front(), DeviceType::cuda);
  const DeviceGuard guard{Device(device_of_driver)};
  Buffer<std::uint32_t> flag(1);
  const auto print_refusal = [&](const char* name, const auto& call) {
    try {
      call();
    } catch (const UsageError& error) {
      std::fprintf(stderr, "%s|%s|\n", name, error.what());
    }
  };
  const CUDAGraph graph = capture([&] {
    print_refusal("if_else", [&] {
      if_else(
          flag.data(), [] {}, [] {});
    });
    print_refusal("switch_", [&] { switch_(flag.data(), {[] {}}); });
    launch(LaunchConfig{}, SetOne{}, flag.data());
  });
  std::fprintf(stderr, "%zu node\n", graph.nodes().size());
  std::_Exit(0);
}

TEST_F(OwnKernels, BranchesThatTheDriverLacksAreRefusedAndTheCaptureGoesOn) {
  setenv("FAKE_LIBCUDA_VERSION", "12060", 1);
  EXPECT_EXIT(capture_branches(), ::testing::ExitedWithCode(0),
              ::testing::AllOf(HasSubstr("if_else|if_else: conditional nodes of type switch, and of type if with two "
                                         "bodies, need a driver of CUDA 12.8 or newer; found: CUDA 12.6"),
                               HasSubstr("switch_|switch_: conditional nodes"), HasSubstr("Nothing was captured"),
                               HasSubstr("\n1 node\n")));
}

#if defined(TEST_OWN_KERNELS_BY_NVCC) && TEST_OWN_KERNELS_BY_NVCC >= 13000

TEST_F(OwnKernels, AreMachineCodeForADriverOfTheCompilersVersion) {
  setenv("FAKE_LIBCUDA_VERSION", "13000", 1);
  EXPECT_EXIT(print(), ::testing::ExitedWithCode(0), "kernels: .\ncondition: .\nloads machine code");
}

TEST_F(OwnKernels, OfConditionsAreRefusedForADriverOfAnOlderMajorVersion) {
  setenv("FAKE_LIBCUDA_VERSION", "12080", 1);
  EXPECT_EXIT(
      print(), ::testing::ExitedWithCode(0),
      HasSubstr("condition: this build has code for drivers of CUDA 13 and later, but the driver here is of CUDA 12.8: "
                "install a newer driver, or build with nvcc of CUDA 12|"));
}

#ifndef TEST_OWN_PTX
TEST_F(OwnKernels, ByNvccAloneAreRefusedForADriverOfAnOlderMajorVersion) {
  setenv("FAKE_LIBCUDA_VERSION", "12080", 1);
  EXPECT_EXIT(
      print(), ::testing::ExitedWithCode(0),
      HasSubstr("kernels: this build has code for drivers of CUDA 13 and later, but the driver here is of CUDA 12.8: "
                "install a newer driver, or build with nvcc of CUDA 12 or with NVRTC (scripts/setup-nvrtc)|"));
}
#endif

#endif

#ifdef TEST_OWN_PTX
TEST_F(OwnKernels, ArePtxOfTheOldestSupportedVersionForADriverOfAnOlderMajorVersion) {
  setenv("FAKE_LIBCUDA_VERSION", "12040", 1);
  EXPECT_EXIT(print(), ::testing::ExitedWithCode(0),
              ::testing::AllOf(HasSubstr("kernels: |"), HasSubstr("loads PTX"), HasSubstr(".version 8.4"),
                               HasSubstr(".target sm_80"), HasSubstr(".visible .entry reprise_copy_batch("),
                               HasSubstr(".visible .entry reprise_fill_batch("),
                               HasSubstr(".visible .entry reprise_advance_random("),
                               HasSubstr(".visible .entry reprise_derive_random(")));
}
#endif

#ifndef TEST_OWN_KERNELS_BY_NVCC
TEST_F(OwnKernels, OfConditionsNeedNvcc) {
  EXPECT_EXIT(print(), ::testing::ExitedWithCode(0),
              HasSubstr("condition: this build has none: CMake found no nvcc that works, or REPRISE_OWN_KERNELS was "
                        "OFF. Its output says which. Build it again with nvcc|"));
}
#endif

}  // namespace
}  // namespace reprise::backend::cuda::test
