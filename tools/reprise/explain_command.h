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

/// Becomes the program, whose captures libreprise_explain.so then reports, as the environment requests.
/// \return if the program does not start: 127 if it is not found, 126 if it cannot run; 2 if the file cannot be
/// written,
///         or that library is not there.
int explain(const ExplainOptions& options);

}  // namespace reprise::tools
