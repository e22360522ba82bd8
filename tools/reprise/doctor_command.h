// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::tools {

/// Prints what there is on this machine, what is missing and what that disables, and what the environment sets.
/// \return 0 if there is a usable GPU, 1 if there are host devices alone, 2 if a GPU or its driver is broken or does
///         not fit, or an environment variable has a value that cannot be used.
int doctor();

}  // namespace reprise::tools
