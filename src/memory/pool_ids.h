// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reprise/memory.h"

namespace reprise::memory {

/// A new id for the pool of one capture that was given none. Its numbers come from the same counter as those of
/// graph_pool_handle(), so that no number is ever used twice in a process. Thread-safe.
MempoolId new_capture_pool_id();

/// Gives out ids in the place of this library: for a framework that gives out ids of the same form. `by_user`: for
/// graph_pool_handle(), else for a capture that was given none. Thread-safe.
using PoolIdSource = MempoolId (*)(bool by_user);

/// From now on ids come from there; null: from this library. Returns the source before. Numbers that this library gave
/// out before do not come again: the new source is asked until it is beyond them. Thread-safe.
PoolIdSource use_pool_ids_of(PoolIdSource source);

/// The id in words, for texts: "(3, 0)".
std::string pool_id_text(MempoolId id);

}  // namespace reprise::memory
