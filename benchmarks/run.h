// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "support.h"

namespace benchmarks {

struct Benchmark {
  const char* name;
  const char* what;
  void (*run)(const Settings&);
};

struct Program {
  const char* name;
  std::span<const Benchmark> benchmarks;
  std::string nvcc = {};  ///< the release that compiled its kernels; empty if it has none, or another compiler did
};

/// Runs the benchmarks of a program, all or those named, on the default device (REPRISE_DEVICE chooses another).
/// Returns the program's exit status.
int main_of(const Program& program, int argc, char** argv);

}  // namespace benchmarks
