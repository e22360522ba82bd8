// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reprise::backend {

/// What the calling thread is doing, in words that follow "within"; empty if there is nothing to say.
using ErrorContext = std::string (*)() noexcept;

/// From now on each BackendError that check.h raises says so too. Thread-safe.
void set_error_context(ErrorContext context) noexcept;

}  // namespace reprise::backend
