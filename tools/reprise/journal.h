// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tools {

/// The journal of `reprise explain`, written by the processes of a program; its lines: inspect/report/explain.h.
struct Journal {
  std::size_t good = 0;
  std::size_t incomplete = 0;
  std::size_t failed = 0;              ///< with those that the library refused after their end
  std::size_t refused = 0;             ///< number of such that were good before
  std::size_t refused_incomplete = 0;  ///< number of such that were incomplete before
  std::size_t unwritten = 0;           ///< number of reports that their file did not take
  std::size_t watched = 0;             ///< number of processes with watched calls of CUDA
  std::vector<std::string> unwatched;  ///< why calls of others were not watched, each reason once
  std::vector<std::string> places;     ///< FILE+OFFSET, each once

  std::size_t captures() const { return good + incomplete + failed; }
};

Journal parse_journal(std::string_view text);

/// The summary, as one or more lines without line ends.
/// \param cuda_is_watched false if `reprise` was built without CUPTI.
std::vector<std::string> summary(const Journal& journal, bool cuda_is_watched);

/// A place, and its name as `addr2line` has it: "FUNCTION at FILE:LINE".
struct ResolvedPlace {
  std::string place;
  std::string name;
};

/// Resolves places by `addr2line`, without those that it cannot resolve.
std::vector<ResolvedPlace> resolve(const std::vector<std::string>& places);

}  // namespace reprise::tools
