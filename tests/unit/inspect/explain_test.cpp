// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace reprise::inspect::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

CaptureReport broken_report() {
  CaptureReport report;
  report.code = ErrorCode::stream_capture_invalidated;
  report.broken_by = CaptureReport::Call{.name = "cudaMalloc", .result = ErrorCode::stream_capture_unsupported};
  report.broken_by->stack = {"File \"train.py\", line 3 in step", "main at /bin/train+0x17", "/bin/train+0x2a"};
  return report;
}

// A folder for what is written.
class ExplainTest : public ::testing::Test {
 protected:
  ExplainTest() {
    std::string name = (std::filesystem::temp_directory_path() / "reprise_explain_test.XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    request_ = {(folder_ / "reports").string(), (folder_ / "journal").string(), false};
    std::ofstream(request_.journal) << "";
  }
  ~ExplainTest() override { std::filesystem::remove_all(folder_); }

  std::string reports() const { return content("reports"); }
  std::string journal() const { return content("journal"); }
  std::string content(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  ExplainRequest request_;
};

TEST_F(ExplainTest, WritesTheReportOfACaptureThatFailed) {
  explain(request_, broken_report());
  EXPECT_EQ(reports(), "reprise explain: " + broken_report().str() + "\n");
  EXPECT_EQ(journal(), "failed\nplace /bin/train+0x2a\n");
}

TEST_F(ExplainTest, WritesTheReportOfACaptureThatLeftSomethingOut) {
  CaptureReport report;
  report.not_captured.push_back({.name = "cudaMemset"});
  explain(request_, report);
  EXPECT_THAT(reports(), HasSubstr("cudaMemset"));
  EXPECT_EQ(journal(), "incomplete\n");
}

TEST_F(ExplainTest, CountsACaptureThatWentWell) {
  explain(request_, {});
  EXPECT_EQ(reports(), "");
  EXPECT_EQ(journal(), "good\n");
}

TEST_F(ExplainTest, WritesTheReportsOfAllCapturesIfAsked) {
  request_.all = true;
  explain(request_, {});
  EXPECT_THAT(reports(), StartsWith("reprise explain: The capture"));
}

TEST_F(ExplainTest, AddsToWhatIsThere) {
  explain(request_, broken_report());
  const std::string one = reports();
  explain(request_, broken_report());
  EXPECT_EQ(reports(), one + one);
}

TEST_F(ExplainTest, DoesNotMakeTheJournalAnewWhenItsReaderIsGone) {
  std::filesystem::remove(request_.journal);
  explain(request_, broken_report());
  EXPECT_FALSE(std::filesystem::exists(request_.journal));
  EXPECT_NE(reports(), "");
}

TEST_F(ExplainTest, WritesToStandardError) {
  request_.output = "stderr";
  ::testing::internal::CaptureStderr();
  explain(request_, broken_report());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "reprise explain: " + broken_report().str() + "\n");
}

TEST_F(ExplainTest, DoesWhatTheEnvironmentAsks) {
  explain_if_requested(broken_report());
  EXPECT_EQ(reports(), "");
  setenv("REPRISE_EXPLAIN", request_.output.c_str(), 1);
  setenv("REPRISE_EXPLAIN_JOURNAL", request_.journal.c_str(), 1);
  explain_if_requested(broken_report());
  explain_if_requested({});
  const std::string failed_alone = reports();
  setenv("REPRISE_EXPLAIN_ALL", "1", 1);
  explain_if_requested({});
  for (const char* name : {"REPRISE_EXPLAIN", "REPRISE_EXPLAIN_JOURNAL", "REPRISE_EXPLAIN_ALL"}) unsetenv(name);
  EXPECT_EQ(failed_alone, "reprise explain: " + broken_report().str() + "\n");
  EXPECT_GT(reports().size(), failed_alone.size());
  EXPECT_EQ(journal(), "failed\nplace /bin/train+0x2a\ngood\ngood\n");
}

}  // namespace
}  // namespace reprise::inspect::test
