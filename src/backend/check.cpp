// SPDX-License-Identifier: Apache-2.0
#include "backend/check.h"

#include <string>
#include <utility>

#include "backend/error_context.h"
#include "backend/rules/reported_call.h"
#include "support/forked.h"
#include "support/process_end.h"

namespace reprise::backend {
namespace {

// Adds the context of the calling thread, which raises the error.
std::string with_context(std::string detail) {
  const std::string words = error_context();
  if (words.empty()) return detail;
  return (detail.empty() ? "within " : std::move(detail) + "; within ") + words;
}

}  // namespace

std::string detail_of(const Backend& backend, const Result& result) {
  std::string detail = result.detail();
  if (!result.may_be_logged()) return detail;
  const std::string logged = backend.logged_error();
  if (!detail.empty() && !logged.empty()) detail += "; ";
  return detail + logged;
}

void raise(const Backend& backend, Call call, const Result& result, SourceLocation where, std::string_view more) {
  std::string detail = detail_of(backend, result);
  if (!more.empty()) detail.append(detail.empty() ? "" : "; ").append(more);
  if (is_about_captures(result.code()))
    if (const std::string broken = captures_broken_by(call); !broken.empty())
      detail.append(detail.empty() ? "" : "; ").append(broken);
  throw BackendError(cuda_name(call), result.code(), with_context(std::move(detail)), where);
}

void raise_refused(Call call, ErrorCode result, std::string detail, SourceLocation where) {
  throw BackendError(cuda_name(call), result, with_context(std::move(detail)), where);
}

bool came_after_the_driver(const Backend& backend, ErrorCode code) noexcept {
  constexpr auto deinitialized = static_cast<ErrorCode>(4);
  return backend.type() == DeviceType::cuda &&
         (code == deinitialized || (code == ErrorCode::context_is_destroyed && support::process_ends()));
}

void warn_of(const Backend& backend, Call call, const Result& result, SourceLocation where) noexcept {
  if (support::forked()) return;  // what the child inherited ends with it
  if (came_after_the_driver(backend, result.code())) return;
  try {
    warn(BackendError(cuda_name(call), result.code(), detail_of(backend, result), where).what());
  } catch (...) {
    warn("a call of the device runtime failed, and there was no memory for its description");
  }
}

}  // namespace reprise::backend
