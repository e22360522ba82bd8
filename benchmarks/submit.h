// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reprise/reprise.h"

namespace benchmarks {

/// Only the call of the device runtime: `cuGraphLaunch`, or its counterpart on a host device.
std::function<void()> bare_launch(reprise::Device device, reprise::GraphExecHandle exec, reprise::StreamHandle stream);

/// The host's time for submitting work: seconds for each of many calls, in bursts with pauses for the stream.
double submit_seconds(const reprise::StreamRef& stream, const std::function<void()>& call);

}  // namespace benchmarks
