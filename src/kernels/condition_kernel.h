// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reprise/device_code.h"

// The kernel that sets the condition of a conditional node: before the node, and at the end of the body of a `while`.

namespace reprise::backend {

/// Device words of one `while` node.
struct LoopState {
  std::uint32_t iterations;  ///< of the body, in the last run of the node
  std::uint32_t stopped;     ///< 1 if that run was ended by the limit, else 0
};

inline namespace REPRISE_KERNEL_ABI {

/// Returns the value of the condition.
/// \param flag for `if` and `while` the body runs if it is not zero; for `switch` it is the number of the body.
/// \param loop null for `if` and `switch`.
/// \param limit the most iterations of the body; 0: no limit.
/// \param begins not zero before the node, zero at the end of the body.
REPRISE_KERNEL inline std::uint32_t next_condition(const std::uint32_t* flag, LoopState* loop, std::uint32_t limit,
                                                   std::uint32_t begins) {
  const std::uint32_t value = *flag;
  if (loop == nullptr) return value;
  if (begins != 0)
    *loop = {0, 0};
  else
    ++loop->iterations;
  if (value == 0 || limit == 0 || loop->iterations < limit) return value;
  loop->stopped = 1;
  return 0;
}

}  // namespace REPRISE_KERNEL_ABI
}  // namespace reprise::backend
