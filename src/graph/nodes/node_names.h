// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace reprise::graphs {

/// True if `wanted` is the name of the kernel with this symbol: the symbol, its full form in C++, or that without
/// namespaces, template arguments and parameters, or some of these.
bool is_name_of_kernel(std::string_view wanted, const char* symbol);

}  // namespace reprise::graphs
