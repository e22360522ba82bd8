// SPDX-License-Identifier: Apache-2.0
#include "tools/reprise/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tools/reprise/program.h"

namespace reprise::tools::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Journal, CountsWhatAllProcessesLeft) {
  const Journal journal = parse_journal(
      "watched\ngood\nfailed\nplace /a+0x1\nwatched\nincomplete\nplace /a+0x1\nplace /b+0x2\nunwatched It is held.\n");
  EXPECT_EQ(journal.captures(), 3U);
  EXPECT_EQ(journal.good, 1U);
  EXPECT_EQ(journal.incomplete, 1U);
  EXPECT_EQ(journal.failed, 1U);
  EXPECT_EQ(journal.watched, 2U);
  EXPECT_THAT(journal.places, ElementsAre("/a+0x1", "/b+0x2"));
  EXPECT_THAT(journal.unwatched, ElementsAre("It is held."));
}

TEST(Journal, IsSummedUpInALine) {
  EXPECT_THAT(summary(parse_journal("good\nfailed\nincomplete\n"), true),
              ElementsAre("3 captures, 1 failed, 1 left work out"));
  EXPECT_THAT(summary(parse_journal("good\n"), true), ElementsAre("1 capture, 0 failed, 0 left work out"));
}

TEST(Journal, CountsARefusedCaptureAsFailed) {
  EXPECT_THAT(summary(parse_journal("good\nrefused\ngood\nincomplete\nrefused incomplete\n"), true),
              ElementsAre("3 captures, 2 failed, 0 left work out"));
  EXPECT_THAT(summary(parse_journal("unwatched It is held.\nrefused\n"), true),
              ElementsAre("captures of CUDA were not seen: It is held.", "1 capture, 1 failed, 0 left work out"));
}

TEST(Journal, SaysWhyThereIsNothingToSumUp) {
  EXPECT_THAT(
      summary({}, true),
      ElementsAre("no capture was seen: the program used neither CUDA nor a host device of reprise for a capture, "
                  "or it warned that the journal of this command was not found"));
  EXPECT_THAT(
      summary({}, false),
      ElementsAre("no capture was seen: the program used no host device of reprise for a capture, or it warned that "
                  "the journal of this command was not found"));
  EXPECT_THAT(summary(parse_journal("watched\n"), true), ElementsAre("the program used CUDA, but made no capture"));
  EXPECT_THAT(summary(parse_journal("unwatched It is held.\n"), true),
              ElementsAre("captures of CUDA were not seen: It is held."));
}

TEST(Journal, PlacesWithoutAnAnswerAreLeftOut) {
  EXPECT_THAT(resolve({"/nowhere+0x1", "no place"}), IsEmpty());
}

TEST(Program, GivesItsExitCode) {
  EXPECT_EQ(run_program({"sh", "-c", "exit 3"}, {}).exit_code, 3);
  EXPECT_EQ(run_program({"sh", "-c", "kill -TERM $$"}, {}).exit_code, 128 + 15);
  EXPECT_EQ(run_program({"sh", "-c", "test \"$REPRISE_TEST_NAME\" = 'a value'"}, {{"REPRISE_TEST_NAME", "a value"}})
                .exit_code,
            0);
  EXPECT_EQ(run_program({"reprise-no-such-program"}, {}).exit_code, 127);
  EXPECT_EQ(run_program({"/dev/null"}, {}).not_started, EACCES);
}

TEST(Program, CanBeReadFrom) {
  EXPECT_EQ(output_of({"sh", "-c", "echo out; echo err >&2"}), "out\n");
  EXPECT_EQ(output_of({"reprise-no-such-program"}), "");
}

}  // namespace
}  // namespace reprise::tools::test
