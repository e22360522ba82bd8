// SPDX-License-Identifier: Apache-2.0
#include "backend/check.h"

#include <fmt/format.h>

namespace reprise::backend {

void raise(const Backend& backend, Call call, Result result, SourceLocation where) {
  throw BackendError(cuda_name(call), result, backend.last_error_detail(), where);
}

bool report(const Backend& backend, Call call, Result result, SourceLocation where) noexcept {
  if (result == Result::success) return true;
  try {
    warn(BackendError(cuda_name(call), result, backend.last_error_detail(), where).what());
  } catch (...) {
    warn("a call of the device runtime failed, and there was no memory to say which");
  }
  return false;
}

}  // namespace reprise::backend
