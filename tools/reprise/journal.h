// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tools {

/// What the processes of a program left in the journal of `reprise explain`; inspect/report/explain.h has its lines.
struct Journal {
  std::size_t good = 0;
  std::size_t incomplete = 0;
  std::size_t failed = 0;
  std::size_t watched = 0;             ///< how many processes had their calls of CUDA watched
  std::vector<std::string> unwatched;  ///< why others had not, each reason once
  std::vector<std::string> places;     ///< FILE+OFFSET, each once

  std::size_t captures() const { return good + incomplete + failed; }
};

Journal parse_journal(std::string_view text);

/// What there is to say at the end, as lines without line ends.
/// \param cuda_is_watched false if `reprise` has nothing to watch calls of CUDA with.
std::vector<std::string> summary(const Journal& journal, bool cuda_is_watched);

/// What `addr2line` knows of places, a line each, "PLACE  FUNCTION at FILE:LINE"; those without an answer are left out.
std::vector<std::string> resolve(const std::vector<std::string>& places);

}  // namespace reprise::tools
