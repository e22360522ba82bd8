// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

/// \file
/// Texts of the library, whose names are those of C++, for users of the interface for C.

namespace reprise::c_api {

/// A text with the names of the interface for C in place of those of C++ that have one. Names that are a part of a
/// longer one, such as those in frames of a stack, `reprise::CUDAGraph::replay`, stay.
std::string in_c_names(std::string_view text);

/// The same of an error's text, which begins with the function that failed: `call` is that of the interface for C.
std::string error_in_c_names(std::string_view call, std::string_view text);

}  // namespace reprise::c_api
