// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reprise/detail/export.h"
#include "reprise/memory.h"

namespace reprise::memory {

/// A new id for the pool of one capture that was given none. Its numbers come from the same counter as those of
/// graph_pool_handle(), so that no number is ever used twice in a process: the framework's, if it gives out ids.
/// Thread-safe.
MempoolId new_capture_pool_id();

/// True if this library, or the framework that gives out ids with it, has made the id. Thread-safe.
bool is_made(MempoolId id);

/// The id in words, for texts: "(3, 0)".
REPRISE_EXPORT_INTERNAL std::string pool_id_text(MempoolId id);

}  // namespace reprise::memory
