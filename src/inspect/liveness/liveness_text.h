// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "reprise/liveness.h"

namespace reprise::inspect {

/// The text of a DeadInputError. `all` is how many inputs the graph has.
std::string dead_inputs_text(std::span<const DeadInput> dead, std::size_t all);

}  // namespace reprise::inspect
