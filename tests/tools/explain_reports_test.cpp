// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "reprise/error.h"

namespace reprise::tools::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
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
    request_ = {(folder_ / "reports").string()};
  }
  ~ExplainTest() override { std::filesystem::remove_all(folder_); }

  std::string reports() const { return content("reports"); }
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
}

TEST_F(ExplainTest, WritesTheReportOfACaptureThatLeftSomethingOut) {
  CaptureReport report;
  report.not_captured.push_back({.name = "cudaMemset"});
  explain(request_, report);
  EXPECT_THAT(reports(), HasSubstr("cudaMemset"));
}

TEST_F(ExplainTest, WritesNothingOfACaptureThatWentWell) {
  explain(request_, {});
  EXPECT_EQ(reports(), "");
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

TEST_F(ExplainTest, WritesToStandardError) {
  request_.file = "";
  ::testing::internal::CaptureStderr();
  explain(request_, broken_report());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "reprise explain: " + broken_report().str() + "\n");
}

TEST_F(ExplainTest, WritesToStandardErrorWhatItsFileDoesNotTake) {
  for (const char* file : {"/dev/full", "/nowhere/reports"}) {
    request_.file = file;
    ::testing::internal::CaptureStderr();
    explain(request_, broken_report());
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), EndsWith("reprise explain: " + broken_report().str() + "\n"));
  }
}

// Each variable is warned about once in a process.
TEST_F(ExplainTest, WarnsOnceThatAFileCannotBeWritten) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto body = [] {
    const ExplainRequest request{"/dev/full"};
    for (int i = 0; i < 2; ++i) explain(request, broken_report());
    std::_Exit(0);
  };
  const std::string report = "reprise explain: " + broken_report().str() + "\n";
  EXPECT_EXIT(
      body(), ::testing::ExitedWithCode(0),
      AllOf(HasSubstr("the file of REPRISE_EXPLAIN, \"/dev/full\", cannot be written (No space left on device): "
                      "its reports go to standard error"),
            EndsWith(report + report)));
}

TEST_F(ExplainTest, IsRequestedByTheEnvironment) {
  EXPECT_EQ(explain_request().file, "");
  setenv("REPRISE_EXPLAIN", "/tmp/reports", 1);
  setenv("REPRISE_EXPLAIN_ALL", "1", 1);
  EXPECT_EQ(explain_request().file, "/tmp/reports");
  EXPECT_TRUE(explain_request().all);
  unsetenv("REPRISE_EXPLAIN");
  unsetenv("REPRISE_EXPLAIN_ALL");
  EXPECT_FALSE(explain_request().all);
}

}  // namespace
}  // namespace reprise::tools::test
