// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "reprise/kernel.h"

// The memory that a kernel declares to access, from its record.

namespace reprise {
namespace {

struct DeclaresNothing {
  REPRISE_KERNEL void operator()(Thread, int*, std::size_t) const {}
};

struct DeclaresAnArray {
  REPRISE_KERNEL void operator()(Thread, float, const double*, int*, std::size_t) const {}
  static auto accesses(float, const double* in, int* out, std::size_t n) {
    return std::array{reads(in, n), writes(out, 2 * n)};
  }
};

struct DeclaresWhatItsArgumentsSay {
  REPRISE_KERNEL void operator()(Block&, int* out, bool in_place) const { (void)out, (void)in_place; }
  static std::vector<MemoryAccess> accesses(int* out, bool in_place) {
    if (in_place) return {reads(out, 1), writes(out, 1)};
    return {writes(out, 1)};
  }
};

TEST(KernelAccesses, AreNoneInTheRecordOfAKernelThatDeclaresNone) {
  EXPECT_EQ(kernel_record<DeclaresNothing>().accesses, nullptr);
}

TEST(KernelAccesses, AreMadeOfTheArguments) {
  float factor = 1;
  const double* in = reinterpret_cast<const double*>(0x1000);
  int* out = reinterpret_cast<int*>(0x2000);
  std::size_t n = 10;
  void* params[] = {&factor, &in, &out, &n};
  const std::vector<MemoryAccess> found = kernel_record<DeclaresAnArray>().accesses(params);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].address, in);
  EXPECT_EQ(found[0].bytes, 80U);
  EXPECT_FALSE(found[0].writes);
  EXPECT_EQ(found[1].address, out);
  EXPECT_EQ(found[1].bytes, 80U);
  EXPECT_TRUE(found[1].writes);
}

TEST(KernelAccesses, MayDependOnTheArguments) {
  int* out = reinterpret_cast<int*>(0x2000);
  bool in_place = true;
  void* params[] = {&out, &in_place};
  EXPECT_EQ(kernel_record<DeclaresWhatItsArgumentsSay>().accesses(params).size(), 2U);
  in_place = false;
  EXPECT_EQ(kernel_record<DeclaresWhatItsArgumentsSay>().accesses(params).size(), 1U);
}

}  // namespace
}  // namespace reprise
