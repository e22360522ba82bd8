// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of capture reports share.

namespace reprise::graphs::test {

class CaptureReports : public ::testing::Test {
 protected:
  // What capture() with this body leaves behind, whatever it throws.
  template <class Body>
  CaptureReport report_of(Body body, const GraphOptions& options = {}) {
    try {
      capture(graph_, options, body);
      ADD_FAILURE() << "the capture went well";
    } catch (const CaptureError& error) {
      thrown_ = error.report();
    } catch (const std::exception&) {
    }
    EXPECT_TRUE(graph_.capture_report().has_value());
    return graph_.capture_report().value_or(CaptureReport{});
  }

  // The report names this call, its code, and the rule; all of that is in the text, too.
  void expect_broken_by(const CaptureReport& report, const std::string& name, ErrorCode result, const std::string& rule,
                        const std::string& advice) {
    ASSERT_TRUE(report.broken_by.has_value()) << report.str();
    const CaptureReport::Call& call = *report.broken_by;
    EXPECT_EQ(call.name, name);
    EXPECT_EQ(call.result, result);
    EXPECT_TRUE(contains(call.rule, rule));
    EXPECT_TRUE(contains(call.advice, advice));
    EXPECT_FALSE(call.stack.empty());
    EXPECT_EQ(report.device, default_device().str());
    for (const std::string& part : {name, std::to_string(static_cast<int>(result)), call.rule, call.advice,
                                    std::to_string(call.thread), call.stack.front(), report.device, report.mode})
      EXPECT_TRUE(contains(report.str(), part));
  }

  backend::Backend& runtime_ = default_device().backend();
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
  std::optional<CaptureReport> thrown_;  // what a CaptureError carried
};

}  // namespace reprise::graphs::test
