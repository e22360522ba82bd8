// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "backend/backend.h"
#include "inspect/frozen/node_values.h"
#include "reprise/frozen_values.h"

namespace reprise::inspect {

/// The text of a FrozenValuesError; `name` is that of the graph and may be empty. Those that perhaps differ come last.
std::string frozen_values_text(std::span<const FrozenValue> values, const std::string& name);

/// The text of the warning if no value certainly differs.
std::string perhaps_frozen_text(std::span<const FrozenValue> values, const std::string& name);

/// The text of the UsageError for two captures of other nodes; empty if their nodes are the same.
std::string other_nodes_text(backend::Backend& backend, const NodeValues& first, const NodeValues& second);

}  // namespace reprise::inspect
