// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reprise::tools {

/// The command line of `reprise explain`.
struct ExplainOptions {
  std::string output;                ///< the file for the reports; empty for standard error
  bool all = false;                  ///< also reports of captures without failure
  std::vector<std::string> command;  ///< the program and its arguments
};

/// Runs the program, reports its failed captures, and prints a summary.
/// \return the program's exit code as from run_program(); 2 if that is 0 and the file could not be written, also when
///         that is known before the program is run.
int explain(const ExplainOptions& options);

}  // namespace reprise::tools
