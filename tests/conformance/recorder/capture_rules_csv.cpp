// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/recorder/capture_rules_csv.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace reprise::backend::test {

std::vector<RuleRow> measured_rules() {
  const auto path = std::filesystem::path(__FILE__).parent_path().parent_path() / "data" / "capture_rules_h200.csv";
  std::ifstream file(path);
  EXPECT_TRUE(file) << "cannot read " << path;
  std::vector<RuleRow> rows;
  std::string text;
  bool past_the_head = false;
  for (std::size_t line = 1; std::getline(file, text); ++line) {
    if (text.empty() || text[0] == '#') continue;
    if (!std::exchange(past_the_head, true)) continue;  // the names of the columns
    std::istringstream fields(text);
    std::vector<std::string> row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    if (row.size() != 10) {
      ADD_FAILURE() << path << ":" << line << " has " << row.size() << " fields instead of 10";
      continue;
    }
    rows.push_back({line, row[0], row[1], row[2], row[3], row[5], row[6], std::stoi(row[4]), std::stoi(row[7]),
                    std::stoi(row[9])});
  }
  return rows;
}

}  // namespace reprise::backend::test
