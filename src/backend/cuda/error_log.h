// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <optional>
#include <string>

#include "backend/cuda/driver_api.h"

// The error log of a process, in drivers of 12.9 and later: about its last 100 lines, of all threads.

namespace reprise::backend::cuda {

/// The present end of the log; nullopt if the driver has none or fails to provide it.
std::optional<LogIterator> log_position(const DriverApi& driver);

/// The lines written since; all of them if `position` is empty. Empty if the driver has no log or fails to provide
/// them.
std::string log_since(const DriverApi& driver, std::optional<LogIterator> position);

/// The name of a thread in the log.
std::string log_name(pthread_t thread);

/// The driver's log message about the calling thread's last failure, for example "cuMemAlloc_v2: ..."; empty if there
/// is none since the last call on this thread. Only after a failure on the thread: the log names threads by a number
/// that later threads reuse.
std::string latest_error(const DriverApi& driver);

}  // namespace reprise::backend::cuda
