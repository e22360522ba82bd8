// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support.h"

// Networks, and times of what trains them.

namespace benchmarks {

/// A network, which graphed_callables.py has under the same name.
struct Network {
  std::string name;
  std::function<torch::nn::Sequential()> make;
  std::vector<std::int64_t> input;  ///< sizes
};

Network perceptron(unsigned layers, std::int64_t width, std::int64_t batch);
Network convolutions();
Network transformer_block();

struct Side {
  std::string name;
  std::function<void()> step;
};

/// Microseconds a step of each side, from its beginning until the device is done, over many steps. On a host device
/// this includes running the work.
std::vector<double> step_times(const Settings& settings, const reprise::StreamRef& stream,
                               const std::vector<Side>& sides);

}  // namespace benchmarks
