// SPDX-License-Identifier: Apache-2.0
#include "journal.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "program.h"
#include "text/format.h"

namespace reprise::tools {
namespace {

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

// addr2line takes minutes for the largest libraries, which rarely have line information.
bool is_small(const std::string& file) {
  constexpr std::uintmax_t most_bytes = 100'000'000;
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(file, failed);
  return !failed && bytes <= most_bytes;
}

}  // namespace

Journal parse_journal(std::string_view text) {
  Journal journal;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space != std::string::npos ? line.substr(space + 1) : "";
    if (word == "good") ++journal.good;
    if (word == "incomplete") ++journal.incomplete;
    if (word == "failed") ++journal.failed;
    if (word == "refused") ++(rest == "incomplete" ? journal.refused_incomplete : journal.refused);
    if (word == "unwritten") ++journal.unwritten;
    if (word == "watched") ++journal.watched;
    if (word == "unwatched") add_once(journal.unwatched, rest);
    if (word == "place") add_once(journal.places, rest);
  }
  // Such a capture was counted before, unless it was not seen.
  journal.failed += journal.refused + journal.refused_incomplete;
  journal.good -= std::min(journal.good, journal.refused);
  journal.incomplete -= std::min(journal.incomplete, journal.refused_incomplete);
  return journal;
}

std::vector<std::string> summary(const Journal& journal, bool cuda_is_watched) {
  std::vector<std::string> lines;
  for (const std::string& why : journal.unwatched) lines.push_back("captures of CUDA were not seen: " + why);
  if (journal.captures() > 0) {
    lines.push_back(text::format("{} capture{}, {} failed, {} left work out", journal.captures(),
                                 journal.captures() == 1 ? "" : "s", journal.failed, journal.incomplete));
    return lines;
  }
  if (journal.watched > 0)
    lines.emplace_back("the program used CUDA, but made no capture");
  else if (journal.unwatched.empty())
    lines.push_back(
        text::format("no capture was seen: the program used {} for a capture, or it warned that the journal of "
                     "this command was not found",
                     cuda_is_watched ? "neither CUDA nor a host device of reprise" : "no host device of reprise"));
  return lines;
}

std::vector<ResolvedPlace> resolve(const std::vector<std::string>& places) {
  std::map<std::string, std::vector<std::string>> offsets;  // of each file
  for (const std::string& place : places)
    if (const std::size_t plus = place.rfind('+'); plus != std::string::npos)
      offsets[place.substr(0, plus)].push_back(place.substr(plus + 1));
  std::vector<ResolvedPlace> resolved;
  for (const auto& [file, of_file] : offsets) {
    if (!is_small(file)) continue;
    std::vector<std::string> command = {"addr2line", "--demangle", "--functions", "--pretty-print", "--exe=" + file};
    command.insert(command.end(), of_file.begin(), of_file.end());
    std::istringstream answers(output_of(command));
    std::string answer;
    for (std::size_t i = 0; i < of_file.size() && std::getline(answers, answer); ++i)
      if (answer.find("??") == std::string::npos) resolved.push_back({file + "+" + of_file[i], answer});
  }
  return resolved;
}

}  // namespace reprise::tools
