// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "reprise/liveness.h"

namespace reprise::inspect {

/// The text of a DeadInputError. `all`: the number of inputs of the graph; `name`: its name, may be empty.
std::string dead_inputs_text(std::span<const DeadInput> dead, std::size_t all, const std::string& name);

}  // namespace reprise::inspect
