// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/timings.h"

namespace reprise::inspect {

/// Sorts the nodes by their start, makes it relative to the first one's, and computes total and annotations. Nodes with
/// the same start keep their order.
void sum_up(ReplayTiming& timing);

}  // namespace reprise::inspect
