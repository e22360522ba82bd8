// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/work_call.h"

#include "backend/rules/reported_call.h"
#include "reprise/public_call.h"

namespace reprise::backend {

CaptureFindings::ObservedCall work_call(const char* cuda_name, StreamHandle stream) {
  const char* const made = detail::PublicCall::current();
  CaptureFindings::ObservedCall call = reported_call(made != nullptr ? made : cuda_name, ErrorCode::success, nullptr);
  if (made != nullptr) call.driver_name = cuda_name;
  call.stream = stream;
  return call;
}

}  // namespace reprise::backend
