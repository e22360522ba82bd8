// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "reprise/version.h"
#include "tests/examples/run_program.h"

// The command `reprise explain`, run as a user runs it.

namespace reprise::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

Outcome run_reprise(const Words& arguments, const Words& environment = {}) {
  const TemporaryFolder folder;
  return run_program(REPRISE_COMMAND, arguments, folder.path(), environment);
}

constexpr const char* reports_go_to_standard_error =
    "reprise explain: reports of captures that fail or leave work out go to standard error\n";

TEST(ReprisePrograms, TellTheirVersionAndHowTheyAreUsed) {
  EXPECT_EQ(run_reprise({"--version"}).out, "reprise " REPRISE_VERSION "\n");
  EXPECT_THAT(run_reprise({"--help"}).out, HasSubstr("reprise explain -- python3 train.py"));
  EXPECT_THAT(run_reprise({"explain", "--help"}).out,
              HasSubstr("Usage: reprise explain [OPTIONS] -- PROGRAM [ARGUMENTS...]\n"));
  EXPECT_THAT(run_reprise({"explain", "--help"}).out, AllOf(HasSubstr("--output FILE"), HasSubstr("--all")));
}

TEST(RepriseExplain, RefusesACommandLineWithoutAProgram) {
  for (const Words& arguments : {Words{"explain"}, Words{"explain", "--"}}) {
    const Outcome outcome = run_reprise(arguments);
    EXPECT_EQ(outcome.exit_code, 64);
    EXPECT_EQ(outcome.err,
              "reprise: error: expected -- and a program; found none; write reprise explain -- PROGRAM ARGUMENTS...\n");
  }
}

TEST(ReprisePrograms, SayWhichArgumentIsWrongAndWhatThereIsInstead) {
  const std::pair<Words, const char*> wrong[] = {
      {{}, "expected a command, explain or doctor; found none; reprise --help says what they do"},
      {{"nonsense"}, "expected a command, explain or doctor; found \"nonsense\"; reprise --help says what they do"},
      {{"--nonsense"}, "expected a command, explain or doctor; found \"--nonsense\"; reprise --help says what they do"},
      {{"doctor", "--all"}, "expected an option of reprise doctor; found \"--all\"; reprise doctor --help lists them"},
      {{"doctor", "--", "true"}, "reprise doctor runs no program; found --; remove it and what follows"},
      {{"explain", "--unknown", "--", "true"},
       "expected an option of reprise explain, or -- before the program; found \"--unknown\"; reprise explain --help "
       "lists them"},
      {{"explain", "true"},
       "expected an option of reprise explain, or -- before the program; found \"true\"; reprise explain --help lists "
       "them"},
  };
  for (const auto& [arguments, text] : wrong) {
    const Outcome outcome = run_reprise(arguments);
    EXPECT_EQ(outcome.exit_code, 64) << text;
    EXPECT_EQ(outcome.err, std::string("reprise: error: ") + text + "\n");
    EXPECT_EQ(outcome.out, "");
  }
  const Outcome without_file = run_reprise({"explain", "--output"});
  EXPECT_EQ(without_file.exit_code, 64);
  EXPECT_THAT(without_file.err, AllOf(HasSubstr("--output"), EndsWith("; reprise explain --help lists the options\n")));
}

TEST(RepriseExplain, RefusesAFileThatCannotBeWritten) {
  const Outcome outcome = run_reprise({"explain", "--output", "/nowhere/reports", "--", "true"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "reprise explain: error: \"/nowhere/reports\" cannot be written\n");
}

/// Runs it with standard output to a file that takes nothing.
Outcome with_full_output(const std::string& program, const Words& arguments) {
  const TemporaryFolder folder;
  Words words = {"-c", "exec \"$0\" \"$@\" > /dev/full", program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program("/bin/sh", words, folder.path());
}

TEST(ReprisePrograms, FailWhereTheirOutputIsLost) {
  for (const Words& arguments : {Words{"--version"}, Words{"--help"}, Words{"explain", "--help"}}) {
    const Outcome outcome = with_full_output(REPRISE_COMMAND, arguments);
    EXPECT_EQ(outcome.exit_code, 70);
    EXPECT_EQ(outcome.err, "reprise: error: standard output cannot be written\n");
  }
}

#ifdef WATCHED_PROGRAM
TEST(RepriseExplain, LeavesTheProgramItsOutputArgumentsAndExitCode) {
  const Outcome outcome = run_reprise({"explain", "--", "sh", "-c", "echo \"$1\"; exit 4", "sh", "--all"});
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.out, "--all\n");
  EXPECT_THAT(outcome.err, EndsWith(reports_go_to_standard_error));
}

TEST(RepriseExplain, SaysThatAProgramIsNotThere) {
  const Outcome outcome = run_reprise({"explain", "--", "reprise-no-such-program"});
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_THAT(
      outcome.err,
      HasSubstr("reprise explain: the program was not started: reprise-no-such-program: No such file or directory"));
}

// With a driver and a CUPTI of the tests' own, so that no GPU is needed.

Words explained(const char* what, const Words& options = {}) {
  Words words = {"explain"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", WATCHED_PROGRAM, what});
  return words;
}
const Words with_fakes = {"LD_LIBRARY_PATH=" FAKE_LIBCUDA_DIRECTORY ":" FAKE_LIBCUPTI_DIRECTORY};

TEST(RepriseExplain, WritesToStandardErrorWhatItsFileDoesNotTake) {
  const Outcome outcome = run_reprise(explained("broken", {"--output", "/dev/full"}), with_fakes);
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the file of REPRISE_EXPLAIN, \"/dev/full\", cannot be written"),
                                 HasSubstr("reprise explain: The capture of stream ")));
}

TEST(RepriseExplain, ReportsTheCallThatBrokeACaptureOfAnyProgram) {
  const Outcome outcome = run_reprise(explained("broken"), with_fakes);
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("reprise explain: The capture of stream 0x100 of cuda:0 (mode global)"),
                                 HasSubstr("cudaStreamSynchronize (cuStreamSynchronize)"), HasSubstr("(900)"),
                                 HasSubstr("it cannot be synchronized"), HasSubstr("read results after a replay")));
}

TEST(RepriseExplain, ReportsACaptureThatTheProgramDidNotEnd) {
  const Outcome outcome = run_reprise(explained("leaves"), with_fakes);
  EXPECT_EQ(outcome.exit_code, 6);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cudaStreamSynchronize (cuStreamSynchronize)"), HasSubstr("(900)"),
                                 HasSubstr("The program ended before the capture did.")));
}

TEST(RepriseExplain, ReportsWorkThatWasLeftOut) {
  const Outcome outcome = run_reprise(explained("left_out"), with_fakes);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cudaMemset (cuMemsetD8_v2)"), HasSubstr("the legacy default stream")));
}

TEST(RepriseExplain, SaysNothingOfCapturesThatWentWellUnlessAsked) {
  EXPECT_EQ(run_reprise(explained("good"), with_fakes).err, reports_go_to_standard_error);
  EXPECT_THAT(run_reprise(explained("good", {"--all"}), with_fakes).err,
              HasSubstr("reprise explain: The capture of stream 0x100"));
}

TEST(RepriseExplain, WritesTheReportsIntoAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "reports";
  const Outcome outcome = run_reprise(explained("broken", {"--output", file}), with_fakes);
  EXPECT_EQ(outcome.err, "reprise explain: reports of captures that fail or leave work out go to " + file + "\n");
  EXPECT_THAT(read_file(file), HasSubstr("cudaStreamSynchronize"));
}

TEST(RepriseExplain, SaysThatAnotherToolHoldsCupti) {
  Words environment = with_fakes;
  environment.emplace_back("FAKE_LIBCUPTI_SUBSCRIBE=39");
  environment.emplace_back("FAKE_LIBCUPTI_HOLDER=Some Profiler");
  EXPECT_THAT(run_reprise(explained("broken"), environment).err,
              EndsWith("reprise explain: Another tool (Some Profiler) holds CUPTI's "
                       "subscriber, of which there is one in a process (a profiler, a debugger, `reprise explain`): "
                       "calls of CUDA are not watched.\n"));
}

TEST(RepriseExplain, NamesTheToolThatItReplaces) {
  Words environment = with_fakes;
  environment.emplace_back("CUDA_INJECTION64_PATH=/opt/profiler.so");
  EXPECT_THAT(run_reprise(explained("good"), environment).err,
              HasSubstr("CUDA_INJECTION64_PATH named another tool, /opt/profiler.so, which is left out"));
}
#else
TEST(RepriseExplain, IsRefusedWithoutCupti) {
  const Outcome outcome = run_reprise({"explain", "--", "true"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("libreprise_explain.so is not there, because reprise was built without CUPTI"));
}
#endif

}  // namespace
}  // namespace reprise::test
