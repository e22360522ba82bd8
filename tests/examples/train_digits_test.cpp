// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "run_program.h"

namespace reprise::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// The first line in which a text occurs.
std::string line_with(const std::string& text, const std::string& wanted) {
  const std::size_t at = text.find(wanted);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', at) + 1;  // 0 in the first line
  return text.substr(begin, text.find('\n', at) - begin);
}

/// The test accuracy, in per cent, at the end of the row of the table of results.
double accuracy_of(const std::string& out, const std::string& row) {
  const std::size_t begin = out.rfind("\n" + row);
  if (begin == std::string::npos) return -1;
  const std::string line = out.substr(begin + 1, out.find('\n', begin + 1) - begin - 1);
  return std::stod(line.substr(line.rfind(' ', line.rfind('%') - 2)));
}

class TrainDigits : public testing::Test {
 protected:
  Outcome run(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) const {
    return run_program(TRAIN_DIGITS, arguments, folder_.path(), environment);
  }
  bool folder_is_empty() const { return std::filesystem::is_empty(folder_.path()); }

  TemporaryFolder folder_;
};

/// A refusal is exit code 2, nothing on standard output, and one line on standard error that contains `message`.
void expect_refused(const Outcome& outcome, const std::string& message) {
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, AllOf(StartsWith("train_digits: error: "), HasSubstr(message)));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST_F(TrainDigits, HasNoRaces) {
  const Outcome outcome = run({"--device", "host", "--epochs", "1", "--batch", "256"}, {"REPRISE_HOST_RACES=1"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, Not(HasSubstr("race")));
}

TEST_F(TrainDigits, ExplainsItsOptions) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  for (const char* option : {"--device", "--epochs", "--batch", "--dropout", "--seed", "--liveness", "--svg", "--data"})
    EXPECT_THAT(outcome.out, HasSubstr(option));
}

TEST_F(TrainDigits, GivesTheSameWeightsBothWaysAndDrawsTheGraph) {
  const Outcome outcome = run({"--epochs", "1", "--svg", "step.svg"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("bitwise the same"));
  if (outcome.out.find("Graphviz is missing") != std::string::npos) GTEST_SKIP() << "there is no Graphviz here";
  EXPECT_THAT(outcome.out, HasSubstr("picture   step.svg\n"));
  EXPECT_THAT(read_file(folder_.path() / "step.svg"),
              AllOf(HasSubstr("<svg"), HasSubstr("digits::SoftmaxLoss"), Not(HasSubstr("kernels_host"))));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "step.svg.dot"));
}

TEST_F(TrainDigits, LeavesAFileOfTheUsersBesideThePictureAlone) {
  std::ofstream(folder_.path() / "step.dot") << "precious";
  EXPECT_EQ(run({"--epochs", "1", "--svg", "step.svg"}).exit_code, 0);
  EXPECT_EQ(read_file(folder_.path() / "step.dot"), "precious");
}

TEST_F(TrainDigits, KeepsTheSourceOfThePictureWhenGraphvizIsMissing) {
  const Outcome outcome = run({"--epochs", "1", "--svg", "step.svg"}, {"PATH=/nowhere"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("apt-get install graphviz"), HasSubstr("step.svg.dot")));
  EXPECT_THAT(read_file(folder_.path() / "step.svg.dot"), HasSubstr("digraph"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "step.svg"));
}

TEST_F(TrainDigits, LearnsToReadDigitsBothWays) {
  const Outcome outcome = run({"--epochs", "12"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_GE(accuracy_of(outcome.out, "eager"), 94);
  EXPECT_GE(accuracy_of(outcome.out, "replayed"), 94);
}

TEST_F(TrainDigits, GoesTheSameWayAgainForTheSameSeed) {
  const auto eager_line = [&](const std::string& seed) {
    return line_with(run({"--epochs", "1", "--seed", seed}).out, "epoch 1/1");
  };
  const std::string first = eager_line("7");
  EXPECT_THAT(first, HasSubstr("loss"));
  EXPECT_EQ(first, eager_line("7"));
  EXPECT_NE(first, eager_line("8"));
}

TEST_F(TrainDigits, GivesTheSameWeightsBothWaysForABatchOfOneAndForOneOfEverything) {
  TemporaryFolder data;
  std::string lines;
  for (int image = 0; image < 10; ++image) {
    for (int pixel = 0; pixel < 64; ++pixel) lines += std::to_string((image * pixel) % 17) + ",";
    lines += std::to_string(image) + "\r\n";
  }
  const std::string path = data.write("ten.csv", lines).string();
  for (const char* batch : {"1", "3", "8"}) {
    const Outcome outcome = run({"--data", path, "--epochs", "2", "--batch", batch});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("bitwise the same"));
  }
}

TEST_F(TrainDigits, LeavesOutOtherValuesInEachStepEagerlyAndReplayed) {
  const auto outcome_for = [&](const std::string& dropout) {
    const Outcome outcome = run({"--device", "host", "--epochs", "1", "--dropout", dropout});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("bitwise the same"));
    return line_with(outcome.out, "epoch 1/1");
  };
  const std::string none = outcome_for("0"), half = outcome_for("0.5");
  EXPECT_THAT(none, HasSubstr("loss"));
  EXPECT_NE(none, half);
}

TEST_F(TrainDigits, TellsWhatThePhasesOfAStepTake) {
  const std::string out = run({"--device", "host", "--epochs", "1"}).out;
  const std::string phases = out.substr(std::min(out.find("phases "), out.size()));
  for (const char* phase : {"batch       2 nodes", "forward     6 nodes", "loss        1 node ", "backward    5 nodes",
                            "update      3 nodes"})
    EXPECT_THAT(phases, HasSubstr(phase));
}

TEST_F(TrainDigits, ChecksThatTheMemoryOfTheGraphIsThere) {
  const Outcome outcome = run({"--epochs", "1", "--liveness"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("bitwise the same"), HasSubstr("inputs    ")));
  EXPECT_THAT(run({"--device", "host", "--epochs", "1"}).out, Not(HasSubstr("inputs    ")));
}

struct BadArguments {
  const char* name;
  std::vector<std::string> arguments;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const BadArguments& bad) {
  return out << testing::PrintToString(bad.arguments);
}

class TrainDigitsRefuses : public TrainDigits, public testing::WithParamInterface<BadArguments> {};

TEST_P(TrainDigitsRefuses, BadArgumentsWithExitCode2AndLeavesNoFile) {
  expect_refused(run(GetParam().arguments), GetParam().message);
  EXPECT_TRUE(folder_is_empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainDigitsRefuses,
    testing::Values(
        BadArguments{"NoEpochs", {"--epochs", "0"}, "--epochs: expected a whole number from 1 to 1000000, found \"0\""},
        BadArguments{"NegativeEpochs", {"--epochs", "-3"}, "found \"-3\""},
        BadArguments{"HalfAnEpoch", {"--epochs", "0.5"}, "found \"0.5\""},
        BadArguments{"EpochsInWords", {"--epochs", "ten"}, "found \"ten\""},
        BadArguments{"EmptyEpochs", {"--epochs="}, "--epochs: expected one value"},
        BadArguments{"MissingEpochs", {"--epochs"}, "--epochs: expected one value"},
        BadArguments{"TooManyEpochs", {"--epochs", "99999999999999999999"}, "found \"99999999999999999999\""},
        BadArguments{"EpochsTwice", {"--epochs", "1", "--epochs", "2"}, "--epochs: expected one value"},
        BadArguments{"NoBatch", {"--batch", "0"}, "--batch: expected a whole number from 1"},
        BadArguments{"NegativeBatch", {"--batch", "-1"}, "found \"-1\""},
        BadArguments{"TooLargeBatch",
                     {"--batch", "1439"},
                     "--batch: expected at most 1438, the number of training images, found 1439"},
        BadArguments{
            "DropoutOfEverything", {"--dropout", "1"}, "--dropout: expected a number from 0 to below 1, found \"1\""},
        BadArguments{"NegativeDropout", {"--dropout", "-0.1"}, "found \"-0.1\""},
        BadArguments{"DropoutThatIsNoNumber", {"--dropout", "nan"}, "found \"nan\""},
        BadArguments{"DropoutInPerCent", {"--dropout", "10%"}, "found \"10%\""},
        BadArguments{"NegativeSeed", {"--seed", "-1"}, "--seed: expected a whole number from 0"},
        BadArguments{"UnknownKindOfDevice", {"--device", "abacus"}, "abacus"},
        BadArguments{"DeviceThatIsNotThere", {"--device", "host:15"}, "host:15"},
        BadArguments{"EmptyDevice", {"--device", ""}, "--device: expected the name of a device"},
        BadArguments{"PictureOfAnotherKind", {"--svg", "step.png"}, "--svg: expected a file name that ends in .svg"},
        BadArguments{"PictureWithoutAName", {"--svg", ""}, "--svg: expected the name of a file, found nothing"},
        BadArguments{"PictureInNoFolder",
                     {"--svg", "nowhere/step.svg"},
                     "cannot write \"nowhere/step.svg\": No such file or directory"},
        BadArguments{"UnknownOption", {"--frobnicate"}, "unknown option or argument \"--frobnicate\""},
        BadArguments{"StrayArgument", {"digits"}, "unknown option or argument \"digits\""},
        BadArguments{"DataWithoutAName", {"--data", ""}, "--data: expected the name of a file, found nothing"},
        BadArguments{"MissingData", {"--data", "nowhere.csv"}, "\"nowhere.csv\": No such file or directory"},
        BadArguments{"FolderAsData", {"--data", "."}, "it is a directory"}),
    [](const auto& test) { return test.param.name; });

TEST_F(TrainDigits, RefusesAPictureWhereAFolderIs) {
  std::filesystem::create_directory(folder_.path() / "step.svg");
  expect_refused(run({"--svg", "step.svg"}), "cannot write \"step.svg\": it is a directory");
}

std::string image_line(const std::string& first_pixel, const std::string& label) {
  std::string line = first_pixel;
  for (int i = 1; i < 64; ++i) line += ",0";
  return line + "," + label + "\n";
}

struct BadData {
  const char* name;
  std::string content;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const BadData& bad) {
  return out << bad.content;
}

class TrainDigitsRefusesData : public TrainDigits, public testing::WithParamInterface<BadData> {};

TEST_P(TrainDigitsRefusesData, AndSaysWhereInTheFile) {
  folder_.write("digits.csv", GetParam().content);
  expect_refused(run({"--data", "digits.csv"}), GetParam().message);
}

const std::string good = image_line("16", "9");

INSTANTIATE_TEST_SUITE_P(
    All, TrainDigitsRefusesData,
    testing::Values(
        BadData{"ThatIsEmpty", "", "digits.csv:1: expected at least 5 images"},
        BadData{"WithTooFewImages", good + good, "digits.csv:3: expected at least 5 images"},
        BadData{"WithAMissingColumn", good + "1,2,3\n",
                "digits.csv:2: expected 65 numbers separated by commas (64 pixels, then the label), found 3"},
        BadData{"WithAColumnTooMany", image_line("1,1", "9"), "found 66"},
        BadData{"WithAnEmptyLine", good + "\n" + good, "digits.csv:2: expected 65 numbers, found an empty line"},
        BadData{"WithAnEmptyValue", image_line("", "9"), "value 1 (pixel), found nothing"},
        BadData{"WithAWord", good + good + image_line("one", "9"),
                "digits.csv:3: expected a whole number from 0 to 16 as value 1 (pixel), found \"one\""},
        BadData{"WithAFraction", image_line("0.5", "9"), "found \"0.5\""},
        BadData{"WithTooBrightAPixel", image_line("17", "9"), "found \"17\""},
        BadData{"WithANegativePixel", image_line("-1", "9"), "found \"-1\""},
        BadData{"WithALabelThatIsNoDigit", image_line("0", "10"),
                "digits.csv:1: expected a whole number from 0 to 9 as value 65 (label), found \"10\""},
        BadData{"WithControlCharacters", image_line("\x1b[2J", "9"), "found \"?[2J\""},
        BadData{"WithAnEndlessLine", std::string(100'000, '1'), "found a line of more than 4095 characters"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace reprise::test
