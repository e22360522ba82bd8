// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/backend.h"

// What the host device makes of calls of CUDA that the backend interface does not have: it cannot make them, but it
// knows their class, and so what they would give.

namespace reprise::backend::test {

/// Obeys the capture rules of the call's class, as the call itself would on a host device, and does nothing else.
/// \param cuda_name the driver's or the runtime's.
/// \param stream what it works on; null for the legacy default stream, or if it works on none.
/// \param event the same.
/// \throws std::runtime_error if the call is not in the table of CUDA's calls.
Result obey_rules(const Backend& host_device, const std::string& cuda_name, StreamHandle stream, EventHandle event);

}  // namespace reprise::backend::test
