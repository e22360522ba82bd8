// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace reprise::graphs {

/// True if `wanted` is the name of the kernel with this symbol: the symbol, or its form in C++, with or without the
/// namespaces, the template arguments and the parameters.
bool is_name_of_kernel(std::string_view wanted, const char* symbol);

}  // namespace reprise::graphs
