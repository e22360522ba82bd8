// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "backend/types.h"

namespace reprise::backend::host {

/// The value of a conditional handle, held by its graph and the plans made from that. Each launch sets it to the
/// default, kernels set it by set_host_condition(), and the conditional node reads it.
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
