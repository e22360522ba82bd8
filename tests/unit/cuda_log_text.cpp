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

}  // namespace
}  // namespace reprise::backend::cuda
