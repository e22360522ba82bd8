// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace reprise::graphs {

/// True if `wanted` is the name of the kernel with this symbol: the symbol, or its full form in C++. Of the latter,
/// namespaces, template arguments and parameters may each be left out; what is written must be the kernel's.
/// \param parameters as kernel_parameters_text() has them: of a kernel whose symbol has none; empty: not known.
bool is_name_of_kernel(std::string_view wanted, const char* symbol, const std::string& parameters = {});

}  // namespace reprise::graphs
