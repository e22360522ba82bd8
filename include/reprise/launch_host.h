// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reprise/export.h"
#include "reprise/stream.h"

/// \file
/// Functions of the host in the order of a stream.

namespace reprise {

/// Calls `function` on the host once prior work on `stream` has completed; later work of the stream waits for it
/// (`cudaLaunchHostFunc`). Returns without waiting. In a capture this is a node: each replay calls the function again,
/// and the graph owns a copy of it as long as the template, its executables and their running launches exist.
///
/// The function runs on a thread of the device runtime, which it must not call: no work, no waits, no allocations of
/// device memory. Runs of one graph come one after another. An exception becomes a warning.
///
/// What the function holds is destroyed on a thread of the program: after a launch outside of captures by a later call
/// of the library, such as launch_host(), capture() or release_finished_graphs().
/// \throws UsageError if the function is empty; BackendError if the runtime refuses the launch.
REPRISE_EXPORT void launch_host(const StreamRef& stream, std::function<void()> function);

/// As above, on the current stream.
REPRISE_EXPORT void launch_host(std::function<void()> function);

}  // namespace reprise
