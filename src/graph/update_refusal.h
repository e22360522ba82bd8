// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reprise/graph_diff.h"
#include "reprise/handles.h"

namespace reprise::graphs {

/// Why the executable of a graph cannot be updated to another one.
struct UpdateRefusal {
  UpdateResult result = UpdateResult::error;
  GraphNodeHandle node = nullptr;  ///< of the other template: the first one that does not fit; null: it is not known
  std::string why = {};            ///< without a full stop
};

}  // namespace reprise::graphs
