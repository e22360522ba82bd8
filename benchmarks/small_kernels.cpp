// SPDX-License-Identifier: Apache-2.0
#include "small_kernels.h"

#include "reprise/kernel.h"
#include "reprise/philox.h"

// A file of its own, so that the compiler for kernels sees nothing else.

namespace benchmarks {
namespace {

struct Increment {
  REPRISE_KERNEL void operator()(reprise::Thread t, float* values) const { values[t.global_x()] += 1; }
};

// A number for each value, of the thread that it belongs to.
struct Randomize {
  REPRISE_KERNEL void operator()(reprise::Thread t, reprise::PhiloxState state, float* values) const {
    values[t.global_x()] += reprise::Philox(state, t.global_x()).uniform();
  }
};

}  // namespace

void launch_small_kernels(unsigned count, float* values) {
  const auto config = reprise::LaunchConfig::cover(small_kernel_values, small_kernel_values);
  for (unsigned i = 0; i < count; ++i) reprise::launch(config, Increment{}, values);
}

void launch_marked_kernels(std::span<const reprise::Parameter<float*>> values) {
  const auto config = reprise::LaunchConfig::cover(small_kernel_values, small_kernel_values);
  for (const reprise::Parameter<float*>& each : values) reprise::launch(config, Increment{}, each);
}

void launch_drawing_kernels(unsigned count, float* values, const reprise::Generator& generator) {
  const auto config = reprise::LaunchConfig::cover(small_kernel_values, small_kernel_values);
  for (unsigned i = 0; i < count; ++i) reprise::launch(config, Randomize{}, generator.philox_state(1), values);
}

}  // namespace benchmarks
