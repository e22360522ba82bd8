// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace reprise::backend {

/// The name of a kernel as people write it, from the one that the linker knows: without result and parameters. For a
/// kernel of launch(), that of its type, as on the host device. What is no mangled name stays as it is; "kernel" for
/// null.
std::string kernel_text(const char* symbol);

}  // namespace reprise::backend
