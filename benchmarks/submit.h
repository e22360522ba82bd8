// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reprise/reprise.h"

namespace benchmarks {

/// Nothing but the call of the device runtime: `cuGraphLaunch`, or what stands for it on a host device.
std::function<void()> bare_launch(reprise::Device device, reprise::GraphExecHandle exec, reprise::StreamHandle stream);

/// What handing work over takes the host: seconds for each of many calls, in bursts that the stream has time for.
double submit_seconds(const reprise::StreamRef& stream, const std::function<void()>& call);

}  // namespace benchmarks
