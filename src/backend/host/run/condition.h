// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "backend/types.h"

namespace reprise::backend::host {

/// The value behind a conditional handle. Launches set it to the default, kernels to what they like
/// (set_host_condition()), and the conditional node reads it. Held by its graph and the plans made from that.
struct HostCondition {
  explicit HostCondition(unsigned at_launch);
  ~HostCondition();
  HostCondition(const HostCondition&) = delete;
  HostCondition& operator=(const HostCondition&) = delete;

  const ConditionalHandle handle;  ///< unique in the process
  const unsigned default_value;
  std::atomic<unsigned> value;
  bool has_node = false;  ///< guarded by the mutex of the runtime
};

}  // namespace reprise::backend::host
