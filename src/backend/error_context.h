// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/call.h"

namespace reprise::backend {

/// Describes what the calling thread is doing, in words that follow "within" in each BackendError of check.h: the
/// annotation of its innermost scope; empty outside of scopes. Defined where annotations are, in inspect/annotations/.
std::string error_context() noexcept;

/// Names the captures of other threads that a call of the calling thread just broke, in words for the detail of its
/// error; empty if it broke none. Defined where captures have names, in captures/.
std::string captures_broken_by(Call call) noexcept;

}  // namespace reprise::backend
