// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/capture_findings.h"
#include "reprise/handles.h"

namespace reprise::backend {

/// Describes a call by which the calling thread just submitted work to a stream: by the function of this library that
/// the thread is in, if it is in one. The caller adds the stack, as to reported_call(), and error_context() as the
/// detail: while holding no mutex.
CaptureFindings::ObservedCall work_call(const char* cuda_name, StreamHandle stream);

}  // namespace reprise::backend
