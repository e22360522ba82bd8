// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/function_cache.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>

namespace reprise::backend::cuda {
namespace {

class FunctionCacheTest : public ::testing::Test {
 protected:
  FunctionCacheTest() {
    for (int i = 0; i < 2000; ++i) kernels_.emplace_back();
  }
  static FunctionHandle function_of(const KernelRecord& kernel) {
    return reinterpret_cast<FunctionHandle>(reinterpret_cast<std::uintptr_t>(&kernel) + 1);
  }

  FunctionCache cache_;
  std::deque<KernelRecord> kernels_;
};

TEST_F(FunctionCacheTest, FindsNothingThatWasNotAdded) {
  EXPECT_EQ(cache_.find(kernels_[0]), nullptr);
  cache_.add(kernels_[0], function_of(kernels_[0]));
  EXPECT_EQ(cache_.find(kernels_[1]), nullptr);
}

TEST_F(FunctionCacheTest, FindsWhatWasAddedHoweverManyThereAre) {
  for (const KernelRecord& kernel : kernels_) cache_.add(kernel, function_of(kernel));
  for (const KernelRecord& kernel : kernels_) EXPECT_EQ(cache_.find(kernel), function_of(kernel));
}

TEST_F(FunctionCacheTest, KeepsTheFunctionThatWasAddedFirst) {
  cache_.add(kernels_[0], function_of(kernels_[0]));
  cache_.add(kernels_[0], function_of(kernels_[1]));
  EXPECT_EQ(cache_.find(kernels_[0]), function_of(kernels_[0]));
}

TEST_F(FunctionCacheTest, FindsWhileOtherThreadsAdd) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (const KernelRecord& kernel : kernels_) {
        cache_.add(kernel, function_of(kernel));
        if (cache_.find(kernel) != function_of(kernel)) ++wrong;
      }
    });
    threads.emplace_back([&] {
      for (const KernelRecord& kernel : kernels_) {
        const FunctionHandle found = cache_.find(kernel);
        if (found != nullptr && found != function_of(kernel)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace reprise::backend::cuda
