// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "inspect/nodes/node_values.h"
#include "reprise/detail/export.h"
#include "reprise/frozen_values.h"

namespace reprise::inspect {

/// The text of a FrozenValuesError; `name` is that of the graph and may be empty. Those that perhaps differ come last.
std::string frozen_values_text(std::span<const FrozenValue> values, const std::string& name);

/// The text of the warning if no value certainly differs.
std::string perhaps_frozen_text(std::span<const FrozenValue> values, const std::string& name);

/// In hexadecimal, as a signed integer, and as a floating-point number where its size is that of one; an address with
/// its memory, which is empty for other values.
REPRISE_EXPORT_INTERNAL std::string value_text(std::uint64_t value, std::size_t bytes, const std::string& memory);

/// The name of a value in words, as far as known: "bytes", "operation 3: source".
std::string member_text(const NodeValue& value);

}  // namespace reprise::inspect
