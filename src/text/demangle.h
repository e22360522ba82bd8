// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reprise::text {

/// The name of a C++ symbol or type as a person writes it; the symbol itself if it is not one of C++.
std::string demangle(const char* symbol);

}  // namespace reprise::text
