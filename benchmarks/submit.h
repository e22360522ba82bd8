// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "reprise/reprise.h"

namespace benchmarks {

/// Only the call of the device runtime: `cuGraphLaunch`, or its counterpart on a host device.
std::function<void()> bare_launch(reprise::Device device, reprise::GraphExecHandle exec, reprise::StreamHandle stream);

/// The order of `count` sides that are measured in rounds. A side is affected by the caches of the previous one: each
/// round begins with another side, and every other round goes backwards.
inline std::size_t turn_of(std::size_t round, std::size_t i, std::size_t count) {
  return (round + (round % 2 == 0 ? i : count - 1 - i)) % count;
}

/// The host's time for submitting work: seconds for each of many calls, in bursts with pauses for the stream.
double submit_seconds(const reprise::StreamRef& stream, const std::function<void()>& call);

}  // namespace benchmarks
