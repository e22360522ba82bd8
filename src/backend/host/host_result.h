// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "backend/rules/capture_rules.h"
#include "reprise/error.h"

namespace reprise::backend::host {

/// What a call of the host device returns on its way out: the code, and of a refused call the reason.
struct HostResult {
  HostResult(ErrorCode result) noexcept : code(result) {}  // NOLINT(google-explicit-constructor): most have no reason
  HostResult(ErrorCode result, std::string why, const CaptureRule* met = nullptr)
      : code(result), detail(std::move(why)), rule(met) {}

  bool failed() const noexcept { return code != ErrorCode::success; }

  ErrorCode code;
  std::string detail = {};            ///< for Backend::last_error_detail()
  const CaptureRule* rule = nullptr;  ///< the capture rule that refused it; null if none did
};

}  // namespace reprise::backend::host
