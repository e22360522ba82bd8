// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "backend/cuda/driver_api.h"

// The error log that drivers of 12.9 and later keep for a process: its last 100 lines or so, of all threads.

namespace reprise::backend::cuda {

/// Where the log ends now; nothing if the driver does not say.
std::optional<CUlogIterator> log_position(const DriverApi& driver);

/// What was written since; all of it if `position` is empty. Empty if the driver does not say.
std::string log_since(const DriverApi& driver, std::optional<CUlogIterator> position);

/// How the log names the calling thread.
std::string log_name_of_this_thread();

/// What the driver wrote into its error log about the calling thread's last failure, for example
/// "cuMemAlloc_v2: ..."; empty if it wrote nothing since this was last asked on this thread.
std::string latest_error(const DriverApi& driver);

}  // namespace reprise::backend::cuda
