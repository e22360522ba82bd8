// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

// The calls that libraries make when they are used for the first time.

namespace reprise::backend {

/// True if a name begins with one of these.
bool begins_with_one_of(std::string_view name, std::span<const std::string_view> beginnings) noexcept;

/// True for calls of CUDA that load code or make a context: they belong to a first use, in any code.
/// \param name of the driver or the runtime; may be empty.
bool loads_code(std::string_view name) noexcept;

/// True for calls that the first use of a library makes, and other code as well. Work on streams is none of them.
/// \param name as before.
bool prepares(std::string_view name) noexcept;

/// True for calls of the driver that load code, or make what is kept: which a library does when it is first used, and
/// rarely later.
bool acquires(std::string_view driver_name) noexcept;

}  // namespace reprise::backend
