// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace reprise::tools {

/// Runs a program, looked for in PATH, with this process's input, output and environment, and waits for it. SIGINT and
/// SIGQUIT are ignored meanwhile, SIGTERM and SIGHUP are passed on.
/// \param environment added to the environment, names and values.
/// \return its exit code; 128 and the signal's number if a signal ended it; 127 if it is not found and 126 if it cannot
///         be run, with a line on standard error.
int run_program(const std::vector<std::string>& command,
                const std::vector<std::pair<std::string, std::string>>& environment);

/// The standard output of a program; empty if it cannot be run. Its standard error is discarded.
std::string output_of(const std::vector<std::string>& command);

}  // namespace reprise::tools
