// SPDX-License-Identifier: Apache-2.0
#include "backend/result.h"

#include <new>
#include <utility>

namespace reprise::backend {

Result::Result(ErrorCode code, std::string detail, const CaptureRule* rule) noexcept : code_(code) {
  if (!detail.empty() || rule != nullptr) reason_.reset(new (std::nothrow) Reason{std::move(detail), rule});
}

Result Result::logged(ErrorCode code, std::string detail) noexcept {
  Result result(code, std::move(detail));
  result.logged_ = true;
  return result;
}

const std::string& Result::detail() const noexcept {
  static const std::string none;
  return reason_ == nullptr ? none : reason_->detail;
}

void Result::Release::operator()(const Reason* reason) const noexcept {
  delete reason;
}

}  // namespace reprise::backend
