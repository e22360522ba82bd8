// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "reprise/detail/kernel_functions.h"
#include "reprise/kernel.h"

namespace reprise {
namespace {

constexpr int most_devices = static_cast<int>(KernelFunctions::most_devices);

FunctionHandle function_on(int device) {
  return reinterpret_cast<FunctionHandle>(static_cast<std::uintptr_t>(0x100 + device));
}

TEST(KernelFunctions, FindNothingThatWasNotAdded) {
  KernelFunctions functions;
  for (int device = 0; device < most_devices; ++device) EXPECT_EQ(functions.find(device), nullptr);
  functions.add(1, function_on(1));
  EXPECT_EQ(functions.find(0), nullptr);
  EXPECT_EQ(functions.find(2), nullptr);
}

TEST(KernelFunctions, AreThoseOfEachDevice) {
  KernelFunctions functions;
  for (int device = 0; device < most_devices; ++device) functions.add(device, function_on(device));
  for (int device = 0; device < most_devices; ++device) EXPECT_EQ(functions.find(device), function_on(device));
}

TEST(KernelFunctions, AreNotKeptOfMoreDevicesThanThereArePlaces) {
  KernelFunctions functions;
  for (const int device : {most_devices, most_devices + 1, 1000}) {
    functions.add(device, function_on(device));
    EXPECT_EQ(functions.find(device), nullptr);
  }
  for (int device = 0; device < most_devices; ++device) EXPECT_EQ(functions.find(device), nullptr);
}

TEST(KernelFunctions, AreNotCopiedWithARecord) {
  // The library's own kernels are copies of a record, and are found by another name.
  const KernelRecord original;
  original.cuda_functions.add(0, function_on(0));
  const KernelRecord copy = original;
  EXPECT_EQ(copy.cuda_functions.find(0), nullptr);
  EXPECT_EQ(original.cuda_functions.find(0), function_on(0));
}

TEST(KernelFunctions, AreFoundWhileOtherThreadsAdd) {
  KernelFunctions functions;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int device = 0; device < most_devices; ++device) {
        functions.add(device, function_on(device));
        if (functions.find(device) != function_on(device)) ++wrong;
      }
    });
    threads.emplace_back([&] {
      for (int device = 0; device < most_devices; ++device) {
        const FunctionHandle found = functions.find(device);
        if (found != nullptr && found != function_on(device)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace reprise
