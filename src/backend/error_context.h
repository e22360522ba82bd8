// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reprise::backend {

/// Describes what the calling thread is doing, in words that follow "within" in each BackendError of check.h: the
/// annotation of its innermost scope; empty outside of scopes. Defined where annotations are, in inspect/annotations/.
std::string error_context() noexcept;

}  // namespace reprise::backend
