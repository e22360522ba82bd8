// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reprise::tools {

/// What the command line of `reprise explain` says.
struct ExplainOptions {
  std::string output;                ///< the file that gets the reports; empty for standard error
  bool all = false;                  ///< also those of captures that went well
  std::vector<std::string> command;  ///< the program and its arguments
};

/// Runs the program, has its failed captures reported, and sums up.
/// \return the program's exit code, as run_program() gives it; 2 if the file cannot be written.
int explain(const ExplainOptions& options);

}  // namespace reprise::tools
