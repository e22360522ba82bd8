// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"

/// \file
/// Makes libtorch's tensors take part in captures; included by all headers of the component.

namespace reprise::libtorch::detail {

/// Installs libtorch as the framework of this process. Initialises no device. Does nothing the second time.
/// \throws UsageError if another framework is installed. Called before main(), where that error ends the process.
REPRISE_EXPORT bool install();

// A program that includes a header of the component, and uses nothing else of it, must have it nevertheless: else a
// capture would leave out the operators without a word. A linker drops those objects of a static library, and with
// --as-needed those shared libraries, that nothing refers to. This variable refers to the library from each source that
// includes the header, and cannot be dropped, because its initialiser calls a function.
inline const bool installed = install();

}  // namespace reprise::libtorch::detail
