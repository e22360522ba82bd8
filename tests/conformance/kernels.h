// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "reprise/kernel.h"

// Kernels that leave a trace which a test can read.

namespace reprise::backend::test {

/// *out = value
struct Store {
  REPRISE_KERNEL void operator()(Thread, int* out, int value) const { *out = value; }
  static auto accesses(int* out, int) { return std::array{writes(out, 1)}; }
};

/// *out += amount, once a launch. With the same parameters as Store, so that one can replace the other in a node.
struct Add {
  REPRISE_KERNEL void operator()(Thread, int* out, int amount) const { *out += amount; }
  static auto accesses(int* out, int) { return std::array{reads(out, 1), writes(out, 1)}; }
};

/// *out = value, after some 10000 reads of out[1], which must be 0: milliseconds on a GPU.
struct StoreLate {
  REPRISE_KERNEL void operator()(Thread, int* out, int value) const {
    const volatile int* const zero = out + 1;
    for (int i = 0; i < 10000; ++i) value += *zero;
    *out = value;
  }
};

/// Writes `value` behind the values that are in the log: the order of the log is the order of execution.
struct Append {
  REPRISE_KERNEL void operator()(Thread, int* log, int* length, int value) const { log[atomic_add(length, 1)] = value; }
};

/// Parameters of different sizes and alignments.
struct Mixed {
  REPRISE_KERNEL void operator()(Thread, double* out, char c, double d, short s, float f, bool b, int* p) const {
    out[0] = c;
    out[1] = d;
    out[2] = s;
    out[3] = static_cast<double>(f);
    out[4] = b ? 1 : 0;
    out[5] = *p;
  }
};

/// Adds one to the cell of each thread of the grid.
struct CountThreads {
  REPRISE_KERNEL void operator()(Thread t, unsigned* cells) const {
    const std::size_t width = std::size_t{t.grid_dim.x} * t.block_dim.x;
    const std::size_t height = std::size_t{t.grid_dim.y} * t.block_dim.y;
    atomic_add(&cells[(t.global_z() * height + t.global_y()) * width + t.global_x()], 1U);
  }
};

}  // namespace reprise::backend::test
