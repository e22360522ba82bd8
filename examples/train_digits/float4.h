// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "reprise/kernel.h"

namespace digits {
inline namespace REPRISE_KERNEL_ABI {

/// Four neighbouring floats. A vector on the host: GCC 12 and Clang 14 vectorise a loop over four values at some
/// optimisation levels only, and the kernel is four times slower at others. On CUDA, four registers of a thread.
struct Float4 {
#if defined(__CUDACC__)
  using Lanes = float[4];
#else
  using Lanes = float __attribute__((vector_size(16)));
#endif
  Lanes lanes;

  /// `from` need not be aligned for a vector.
  REPRISE_KERNEL static Float4 load(const float* from) {
    Float4 result;
#if defined(__CUDACC__)
    for (int i = 0; i < 4; ++i) result.lanes[i] = from[i];
#else
    std::memcpy(&result.lanes, from, sizeof result.lanes);
#endif
    return result;
  }
  REPRISE_KERNEL static Float4 all(float value) {
    const float four[] = {value, value, value, value};
    return load(four);
  }
  REPRISE_KERNEL void store(float* to) const {
#if defined(__CUDACC__)
    for (int i = 0; i < 4; ++i) to[i] = lanes[i];
#else
    std::memcpy(to, &lanes, sizeof lanes);
#endif
  }

  /// Adds a * b to this.
  REPRISE_KERNEL void add_product(const Float4& a, const Float4& b) {
#if defined(__CUDACC__)
    for (int i = 0; i < 4; ++i) lanes[i] += a.lanes[i] * b.lanes[i];
#else
    lanes += a.lanes * b.lanes;
#endif
  }
  REPRISE_KERNEL float sum() const {
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }
};

}  // namespace REPRISE_KERNEL_ABI
}  // namespace digits
