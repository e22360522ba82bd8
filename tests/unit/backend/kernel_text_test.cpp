// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/kernel_text.h"

#include <gtest/gtest.h>

// Names of kernels as in C++ source.

namespace reprise::backend::test {
namespace {

TEST(KernelText, LeavesOutResultAndParameters) {
  EXPECT_EQ(kernel_text("_Z6spin_aiPf"), "spin_a");
  EXPECT_EQ(kernel_text("_ZN4user5scaleIfEEvPT_m"), "user::scale<float>");
  EXPECT_EQ(kernel_text("_ZN4user5applyIPFviEEEvT_"), "user::apply<void (*)(int)>");
}

TEST(KernelText, KeepsWhatIsNoNameOfCpp) {
  EXPECT_EQ(kernel_text("reprise_advance_random"), "reprise_advance_random");
  EXPECT_EQ(kernel_text("mine::Scale"), "mine::Scale");
  EXPECT_EQ(kernel_text("f"), "f");
  EXPECT_EQ(kernel_text(""), "");
  EXPECT_EQ(kernel_text(nullptr), "kernel");
}

TEST(KernelText, KeepsAnAnonymousNamespace) {
  EXPECT_EQ(kernel_text("_ZN12_GLOBAL__N_15scaleEPf"), "(anonymous namespace)::scale");
  EXPECT_EQ(kernel_text("_ZN12_GLOBAL__N_15scaleIfEEvPT_"), "(anonymous namespace)::scale<float>");
}

TEST(KernelText, OfAKernelOfLaunchIsItsType) {
  // reprise::kernel_detail::cuda_entry<user::Scale, float, float*>(float, float*)
  EXPECT_EQ(kernel_text("_ZN7reprise12kernels_nvcc13kernel_detail10cuda_entryIN4user5ScaleEJfPfEEEvDpT0_"),
            "user::Scale");
  // ..., of a kernel that is a template, and takes a value of the library
  EXPECT_EQ(kernel_text("_ZN7reprise12kernels_nvcc13kernel_detail10cuda_entryIN4user4PairIfiEEJNS0_6ThreadEEEEvDpT0_"),
            "user::Pair<float, int>");
}

TEST(KernelText, DoesNotNameTheInlineNamespace) {
  EXPECT_EQ(kernel_text("_ZN4user5applyIN7reprise12kernels_nvcc6ThreadEEEvT_"), "user::apply<reprise::Thread>");
}

}  // namespace
}  // namespace reprise::backend::test
