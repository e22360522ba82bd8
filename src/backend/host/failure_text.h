// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "backend/call.h"
#include "backend/host/failure_plan.h"

namespace reprise::backend::host {

/// The call of that name: the driver's, in any of its versions, or that of Backend. nullopt if there is none.
std::optional<Call> find_call(std::string_view name);

/// The failures of REPRISE_HOST_FAIL. \throws UsageError if the list cannot be read.
std::vector<FailurePlan::Failure> failures_from_environment();

}  // namespace reprise::backend::host
