// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "reprise/liveness.h"

namespace reprise::inspect {

/// For the text of a DeadInputError.
struct DeadGraph {
  const char* call;
  std::string name = {};      ///< of the graph; may be empty
  std::size_t inputs = 0;     ///< their number; 0 if only those that were dead when the capture ended were looked for
  bool retains_them = false;  ///< InputOptions::retain was set
};
std::string dead_inputs_text(const DeadGraph& graph, std::span<const DeadInput> dead);

}  // namespace reprise::inspect
