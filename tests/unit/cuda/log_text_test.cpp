// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/log_text.h"

#include <gtest/gtest.h>

namespace reprise::backend::cuda {
namespace {

TEST(CudaLogText, GivesTheLastMessageOfAThread) {
  EXPECT_EQ(last_message("[10:00:00.000][77][CUDA][E] first\n[10:00:00.001][77][CUDA][E] second\n", "77"), "second");
}

TEST(CudaLogText, NamesTheFunctionWhereTheDriverDoes) {
  EXPECT_EQ(last_message("[10:00:00.000][77][CUDA][E][cuMemAlloc_v2] no size", "77"), "cuMemAlloc_v2: no size");
}

TEST(CudaLogText, PassesOverOtherThreads) {
  EXPECT_EQ(last_message("[10:00:00.000][77][CUDA][E] mine\n[10:00:00.001][78][CUDA][E] theirs\n", "77"), "mine");
  EXPECT_EQ(last_message("[10:00:00.001][78][CUDA][E] theirs\n", "77"), "");
}

TEST(CudaLogText, PassesOverWarningsAndLinesThatRepeatTheCode) {
  EXPECT_EQ(last_message("[10:00:00.000][77][CUDA][E] size is 0\n"
                         "[10:00:00.000][77][CUDA][W] slow\n"
                         "[10:00:00.000][77][CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2\n",
                         "77"),
            "size is 0");
}

TEST(CudaLogText, IsEmptyForATextOfAnotherForm) {
  for (const char* text :
       {"", "\n\n", "no brackets", "[10:00:00.000", "[10:00:00.000][77]", "[a][77][CUDA][E]", "[a][77][CUDA][E][f]   "})
    EXPECT_EQ(last_message(text, "77"), "") << text;
}

bool anything(std::string_view, int) {
  return true;
}

std::string line(const char* thread, const char* text) {
  return std::string("[10:00:00.000][") + thread + "][CUDA][E] " + text + "\n";
}

TEST(CudaLogText, TellsTheFirstCallThatFailedWithACodeOfCaptures) {
  const auto failure = first_capture_failure(
      line("1", "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemcpyAsync") + line("2", "it conflicts") +
          line("2", "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2") +
          line("1", "Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from cuLaunchKernelEx") +
          line("1", "Returning 906 (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) from cuMemcpy"),
      &anything);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->function, "cuMemAlloc_v2");
  EXPECT_EQ(failure->code, 900);
  EXPECT_EQ(failure->thread, "2");
}

TEST(CudaLogText, TellsTheLastFailureBeforeTheFirstConsequenceOtherwise) {
  const auto failure =
      first_capture_failure(line("1", "Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAllocAsync") +
                                line("1", "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernel") +
                                line("1", "Returning 901 (CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) from cuLaunchKernel"),
                            &anything);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->function, "cuLaunchKernel");
  EXPECT_EQ(failure->code, 1);
}

TEST(CudaLogText, PassesOverCallsThatBreakNothing) {
  const auto failure = first_capture_failure(
      line("1", "Returning 900 (X) from cuMemcpyBatchAsync_v2") + line("1", "Returning 900 (X) from cuMemAlloc_v2"),
      [](std::string_view name, int) { return name != "cuMemcpyBatchAsync_v2"; });
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->function, "cuMemAlloc_v2");
}

TEST(CudaLogText, TellsNoCallWhereNoneIsNamed) {
  for (const std::string& text :
       {std::string(), line("1", "Returning 901 (X) from cuLaunchKernel"), line("1", "Returning from"),
        line("1", "Returning 900 (X)"), line("1", "Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc_v2")})
    EXPECT_FALSE(first_capture_failure(text, &anything).has_value()) << text;
}

}  // namespace
}  // namespace reprise::backend::cuda
