// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/timings.h"

namespace reprise::inspect {

/// Brings the nodes into the order of their start, which becomes relative to the first one's, and fills in what follows
/// from them: total and annotations. Nodes that start at the same time keep their order.
void sum_up(ReplayTiming& timing);

}  // namespace reprise::inspect
