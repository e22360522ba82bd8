// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace reprise::tools {

/// The end of a program.
struct ProgramEnd {
  int exit_code =
      0;  ///< 128 and the signal's number if a signal ended it; 127 if it is not found, 126 if it cannot run
  int not_started = 0;  ///< the error (`errno`) because of which it did not start; 0: it did
};

/// Runs a program, looked for in PATH, with this process's input, output and environment, and waits for it. SIGINT and
/// SIGQUIT are ignored meanwhile, SIGTERM and SIGHUP are passed on.
/// \param environment added to the environment, names and values.
ProgramEnd run_program(const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& environment);

/// The standard output of a program; empty if it cannot be run. Its standard error is discarded.
std::string output_of(const std::vector<std::string>& command);

}  // namespace reprise::tools
