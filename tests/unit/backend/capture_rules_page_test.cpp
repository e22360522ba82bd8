// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "backend/rules/capture_rules.h"
#include "backend/rules/cuda_calls.h"

// docs/capture-rules.md has all rules and calls of the tables that the library uses, and no others.

namespace reprise::backend {
namespace {

using ::testing::HasSubstr;

struct Row {
  std::string line;
  std::vector<std::string> cells;

  const std::string& kinds() const { return cells.front(); }
  bool is_rule() const { return cells.size() == 4 || cells.size() == 5; }
  /// The code of a rule, or of a call after the capture broke.
  const std::string& code() const { return is_rule() ? cells[2] : cells.back(); }
};

std::string page() {
  std::ostringstream text;
  text << std::ifstream(CAPTURE_RULES_PAGE).rdbuf();
  return text.str();
}

/// The rows of all tables, without those below their names.
std::vector<Row> read_rows() {
  std::vector<Row> found;
  std::istringstream lines(page());
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    Row row{line, {}};
    for (std::size_t begin = 2, end = 0; (end = line.find(" |", begin)) != std::string::npos; begin = end + 3)
      row.cells.push_back(line.substr(begin, end - begin));
    found.push_back(row);
  }
  return found;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = read_rows();
  return all;
}

std::string in_code(const CudaCall& call) {
  return "`" + std::string(call.runtime.empty() ? call.driver : call.runtime) + "`";
}

/// The row with the calls of a class; empty for potentially unsafe ones, which are a paragraph.
Row row_of_kind(CallClass call_class) {
  if (call_class == CallClass::potentially_unsafe) return {"", {"potentially unsafe"}};
  const auto call = std::ranges::find(cuda_calls(), call_class, &CudaCall::call_class);
  for (const Row& row : rows())
    if (row.cells.size() == 2 && row.line.find(in_code(*call)) != std::string::npos) return row;
  ADD_FAILURE() << "no kind of calls has " << in_code(*call);
  return {"", {""}};
}

bool is_of_kind(const Row& row, const std::string& kind) {
  return ("; " + row.kinds() + "; ").find("; " + kind + "; ") != std::string::npos;
}

bool is_row_of(const Row& row, const CaptureRule& rule, const std::string& kind) {
  const bool for_all = rule.situation == Situation::legacy_conflict && row.kinds() == "anything on a stream";
  if ((!is_of_kind(row, kind) && !for_all) || row.code() != std::to_string(static_cast<int>(rule.result))) return false;
  if (rule.situation == Situation::stream_invalidated && rule.effect == CaptureEffect::none) return !row.is_rule();
  if (!row.is_rule() || row.cells.back() != rule.advice) return false;
  if (rule.effect == CaptureEffect::none) return row.cells.size() == 4;
  return row.cells.size() == 5 &&
         row.cells[3].starts_with(rule.effect == CaptureEffect::ended ? "is over" : "is broken");
}

TEST(CaptureRulesPage, HasTheCallsOfEachClass) {
  const std::string text = page();
  for (const CudaCall& call : cuda_calls()) {
    const Row row = row_of_kind(call.call_class);
    EXPECT_THAT(row.line.empty() ? text : row.line, HasSubstr(in_code(call)));
  }
}

TEST(CaptureRulesPage, HasEachRule) {
  for (const CudaCall& call : cuda_calls()) {
    const std::string kind = row_of_kind(call.call_class).kinds();
    for (const CaptureRule& rule : rules_of(call.call_class))
      ASSERT_TRUE(std::ranges::any_of(rows(), [&](const Row& row) { return is_row_of(row, rule, kind); }))
          << "expected a row of \"" << kind << "\" with the code " << static_cast<int>(rule.result)
          << " and the advice: " << rule.advice;
  }
}

TEST(CaptureRulesPage, HasNoOtherRule) {
  for (const Row& row : rows()) {
    if (!row.is_rule() || row.code() == "code") continue;
    EXPECT_TRUE(std::ranges::any_of(cuda_calls(), [&](const CudaCall& call) {
      const std::string kind = row_of_kind(call.call_class).kinds();
      return std::ranges::any_of(rules_of(call.call_class),
                                 [&](const CaptureRule& rule) { return is_row_of(row, rule, kind); });
    })) << row.line;
  }
}

}  // namespace
}  // namespace reprise::backend
