// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reprise::backend {

/// Returns a name without the inline namespaces of REPRISE_KERNEL_ABI, which are for the linker only.
std::string without_inline_namespace(std::string name);
/// Returns the name of a kernel as written in C++, from its mangled name: without result and parameters. For a kernel
/// of launch(), the name of its type, as on the host device. Other names are returned unchanged; "kernel" for null.
std::string kernel_text(const char* symbol);
/// The types of its parameters in brackets, as its mangled name has them: "(float*, int)"; empty if it has none.
std::string kernel_parameters_text(const char* symbol);

}  // namespace reprise::backend
