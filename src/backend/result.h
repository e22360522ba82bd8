// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "reprise/detail/export.h"
#include "reprise/error.h"

namespace reprise::backend {

struct CaptureRule;

/// Result of a call of a backend: the code, and of a failure what is known beyond it. No memory is allocated unless
/// there is such a detail or rule. A moved-from result keeps its code alone.
class [[nodiscard]] Result {
 public:
  Result(ErrorCode code) noexcept : code_(code) {}  // NOLINT(google-explicit-constructor): most have no reason
  /// \param detail why, in sentences; may be empty. Lost, as is the rule, where there is no memory for them.
  /// \param rule the capture rule that refused the call; null if none did.
  Result(ErrorCode code, std::string detail, const CaptureRule* rule = nullptr) noexcept;
  /// A failure of the driver, about which its log may say more: Backend::logged_error().
  static Result logged(ErrorCode code, std::string detail = {}) noexcept;

  bool failed() const noexcept { return code_ != ErrorCode::success; }
  ErrorCode code() const noexcept { return code_; }
  bool may_be_logged() const noexcept { return logged_; }
  const std::string& detail() const noexcept;
  const CaptureRule* rule() const noexcept { return reason_ == nullptr ? nullptr : reason_->rule; }

  friend bool operator==(const Result& result, ErrorCode code) noexcept { return result.code_ == code; }

 private:
  struct Reason {
    std::string detail;
    const CaptureRule* rule;
  };
  struct Release {
    REPRISE_EXPORT_INTERNAL void operator()(const Reason* reason) const noexcept;
  };

  ErrorCode code_;
  bool logged_ = false;
  std::unique_ptr<const Reason, Release> reason_;  // mostly null, which the destructor finds without a call
};

}  // namespace reprise::backend
