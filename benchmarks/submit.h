// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "reprise/reprise.h"

namespace benchmarks {

/// Nothing but the call of the device runtime: `cuGraphLaunch`, or what stands for it on a host device.
std::function<void()> bare_launch(reprise::Device device, reprise::GraphExecHandle exec, reprise::StreamHandle stream);

/// Whose turn it is, of `count` sides that are measured in rounds. A side finds the caches as the one before it left
/// them: each round begins with another side, and every other round goes backwards.
inline std::size_t turn_of(std::size_t round, std::size_t i, std::size_t count) {
  return (round + (round % 2 == 0 ? i : count - 1 - i)) % count;
}

/// What handing work over takes the host: seconds for each of many calls, in bursts that the stream has time for.
double submit_seconds(const reprise::StreamRef& stream, const std::function<void()>& call);

}  // namespace benchmarks
