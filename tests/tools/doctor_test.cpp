// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/examples/run_program.h"

// The command `reprise doctor`, run as a user runs it: on a machine without a driver, and with one of the tests' own.

namespace reprise::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Lines = std::vector<std::string>;

Outcome run_doctor(const Lines& options, const Lines& environment) {
  const TemporaryFolder folder;
  Lines arguments = {"doctor"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  // What else the environment of the tests sets is removed by an empty value.
  Lines variables;
  for (const char* const* each = environ; *each != nullptr; ++each) {
    const std::string name(*each, std::strcspn(*each, "="));
    if (name.starts_with("REPRISE_") && name != "REPRISE_DEVICE") variables.push_back(name + "=");
  }
  variables.insert(variables.end(), environment.begin(), environment.end());
  return run_program(REPRISE_COMMAND, arguments, folder.path(), variables);
}

nlohmann::json json_of(const Outcome& outcome) {
  nlohmann::json found = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(found.is_object()) << outcome.out << outcome.err;
  return found;
}

TEST(RepriseDoctor, SaysHowItIsUsed) {
  EXPECT_THAT(run_doctor({"--help"}, {}).out,
              AllOf(HasSubstr("--json"), HasSubstr("Exit code: 0 if there is a usable GPU")));
}

TEST(RepriseDoctor, SaysWhatTheEnvironmentSets) {
  const std::pair<const char*, const char*> settings[] = {
      {"REPRISE_DEVICE=host", "programs use host:0, unless they name another one"},
      {"REPRISE_HOST_DEVICES=3", "the number of host devices is 3"},
      {"REPRISE_HOST_MEMORY=2000000", "each host device has 2000000 bytes of memory"},
      {"REPRISE_HOST_PROTECT=1", "memory of host devices is protected from the host"},
      {"REPRISE_HOST_RACES=1", "host devices look for races"},
      {"REPRISE_HOST_SCHEDULER=7", "host devices run one operation at a time, in the order of seed 7"},
      {"REPRISE_HOST_SCHEDULER=threads", "work of host devices runs on threads, as by default"},
      {"REPRISE_HOST_DEVICE=2", "unknown: programs do not read it, probably a typing error of REPRISE_HOST_DEVICES"},
      {"REPRISE_LOGS=info", "unknown: programs do not read it, probably a typing error of REPRISE_LOG"},
      {"REPRISE_TORCH_DIR=/x",
       "unknown: programs do not read it, a typing error unless scripts or CMake of reprise do"},
      {"REPRISE_DRIVER_VERSION=12.4", "a newer driver is treated like one of this version of CUDA"},
      {"REPRISE_EXPLAIN=0", "captures are not reported, as by default"},
      {"REPRISE_EXPLAIN=1", "captures that fail, or lack work, are reported on stderr"},
      {"REPRISE_EXPLAIN=reports/log", "captures that fail, or lack work, are reported on reports/log"},
      {"REPRISE_EXPLAIN=yes",
       "the environment variable REPRISE_EXPLAIN should be 1, `stderr` for the same, 0, or the path of a file, with a "
       "slash, but it is \"yes\": programs warn, and report on standard error"},
      {"REPRISE_EXPLAIN_ALL=1", "programs report captures that are good as well"},
      {"REPRISE_EXPLAIN_JOURNAL=/x", "programs write the summary of `reprise explain` there"},
      {"REPRISE_EXPLAIN_JSON=0", "programs do not report captures as JSON"},
      {"REPRISE_LOG=OFF", "programs log nothing, not even warnings"},
      {"REPRISE_LOG=info", "programs log the steps of graphs, and warnings"},
      {"REPRISE_MEMORY_STACKS=1", "programs record the stacks of allocations and frees"},
      {"REPRISE_LOG=loud",
       "the environment variable REPRISE_LOG should be off, warning or info, but it is \"loud\": programs warn, and go "
       "by "
       "the default"},
      {"REPRISE_MEMORY_STACKS=yes",
       "the environment variable REPRISE_MEMORY_STACKS should be 0 or 1, but it is \"yes\": programs warn, and go by "
       "the "
       "default"},
  };
  for (const auto& [setting, effect] : settings) {
    const Outcome outcome = run_doctor({}, {setting});
    EXPECT_LT(outcome.exit_code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("setting    ") + setting + ": " + effect + "\n"));
  }
  EXPECT_THAT(run_doctor({}, {"REPRISE_DEVICE=", "REPRISE_HOST_RACES="}).out, Not(HasSubstr("setting")));
}

TEST(RepriseDoctor, ExitsWith2WhereAVariableHasAValueThatCannotBeUsed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"REPRISE_DEVICE=gpu", "expected the name of a device (host, host:1, cuda, cuda:0); found \"gpu\""},
      {"REPRISE_DEVICE=host:1", "expected the number of a host device below 1; found \"host:1\""},
      {"REPRISE_DEVICE=cuda:99", "; found \"cuda:99\""},
      {"REPRISE_HOST_DEVICES=two", "should be a whole number from 1 to 16, but it is \"two\""},
      {"REPRISE_HOST_MEMORY=1", "should be a whole number from 1048576 to "},
      {"REPRISE_HOST_PROTECT=yes", "should be a whole number from 0 to 1, but it is \"yes\""},
      {"REPRISE_HOST_RACES=2", "should be a whole number from 0 to 1, but it is \"2\""},
      {"REPRISE_HOST_SCHEDULER=fast", "should be `threads`, or a whole number from 0 as the seed"},
  };
  for (const auto& [setting, error] : wrong) {
    const Outcome outcome = run_doctor({}, {setting});
    EXPECT_EQ(outcome.exit_code, 2) << setting;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(std::string("setting    ") + setting + ": "), HasSubstr(error),
                                   HasSubstr("disables: the first use of a device throws this error\n"),
                                   HasSubstr("result     an environment variable has a value that cannot be used\n")));
  }
}

TEST(RepriseDoctor, HasSettingsInJson) {
  const nlohmann::json found = json_of(run_doctor({"--json"}, {"REPRISE_HOST_RACES=maybe", "REPRISE_DEVICE=host"}));
  ASSERT_EQ(found["settings"].size(), 2U);
  EXPECT_EQ(found["settings"][0]["name"], "REPRISE_DEVICE");
  EXPECT_EQ(found["settings"][0]["value"], "host");
  EXPECT_EQ(found["settings"][0]["error"], nullptr);
  EXPECT_EQ(found["settings"][1]["effect"], nullptr);
  EXPECT_THAT(found["settings"][1]["error"].get<std::string>(), HasSubstr("but it is \"maybe\""));
  EXPECT_EQ(found["exit_code"], 2);
}

#ifdef FAKE_LIBCUDA_DIRECTORY
/// What is missing, and disables what.
std::string disabled(const nlohmann::json& found) {
  std::string all;
  for (const nlohmann::json& one : found["missing"])
    all += one["what"].get<std::string>() + " / " + one["why"].get<std::string>() + " / " +
           one["disables"].get<std::string>() + "\n";
  return all;
}

/// With a driver of the tests' own, of these properties.
Outcome with_driver(const Lines& options, Lines properties) {
  properties.push_back("LD_LIBRARY_PATH=" FAKE_LIBCUDA_DIRECTORY ":" FAKE_LIBCUPTI_DIRECTORY);
  return run_doctor(options, properties);
}

TEST(RepriseDoctor, ExitsWith0WhereThereIsAUsableGpu) {
  const Outcome outcome = with_driver({}, {"FAKE_LIBCUDA_VERSION=13010"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("driver     CUDA 13.1\n"),
                                 HasSubstr("device     cuda:0 Device 0 of a test, compute capability 9.0\n"),
                                 HasSubstr("device     cuda:1 Device 1 of a test"),
                                 HasSubstr("CUPTI      " FAKE_LIBCUPTI_DIRECTORY "/libcupti.so.13\n"),
                                 HasSubstr("result     a GPU can be used\n"), Not(HasSubstr("the driver is older"))));
}

TEST(RepriseDoctor, PrintsTheSameInJson) {
  const Outcome outcome = with_driver({"--json"}, {"FAKE_LIBCUDA_VERSION=13000"});
  EXPECT_EQ(outcome.exit_code, 0);
  const nlohmann::json found = json_of(outcome);
  EXPECT_EQ(found["driver"]["version"], "13.0");
  EXPECT_EQ(found["devices"].size(), 2U);
  EXPECT_EQ(found["devices"][0]["name"], "Device 0 of a test");
  EXPECT_EQ(found["devices"][0]["compute_capability"], "9.0");
  EXPECT_EQ(found["devices"][0]["usable"], true);
  EXPECT_EQ(found["cupti"], FAKE_LIBCUPTI_DIRECTORY "/libcupti.so.13");
  EXPECT_EQ(found["exit_code"], 0);
  EXPECT_THAT(disabled(found), HasSubstr("ids of nodes for profilers / the driver is older than CUDA 13.1 / "));
}

TEST(RepriseDoctor, NamesWhatAnOlderDriverLacks) {
  const Lines lacks_of_12_4 = {"conditional nodes with several bodies / the driver is older than CUDA 12.8 / if_else",
                               "the driver's error log / the driver is older than CUDA 12.9 / "};
  for (const char* version : {"FAKE_LIBCUDA_VERSION=12040", "REPRISE_DRIVER_VERSION=12.4"}) {
    const Outcome outcome = with_driver({"--json"}, {version});
    EXPECT_EQ(outcome.exit_code, 0);
    const nlohmann::json found = json_of(outcome);
    EXPECT_EQ(found["driver"]["version"], "12.4");
    for (const std::string& lack : lacks_of_12_4) EXPECT_THAT(disabled(found), HasSubstr(lack));
  }
  EXPECT_THAT(disabled(json_of(with_driver({"--json"}, {"FAKE_LIBCUDA_VERSION=12080"}))),
              AllOf(Not(HasSubstr("conditional nodes")), HasSubstr("error log")));
}

TEST(RepriseDoctor, NamesAPretendedVersionAndTheRealOne) {
  EXPECT_THAT(with_driver({}, {"REPRISE_DRIVER_VERSION=12.4"}).out,
              HasSubstr("driver     CUDA 13.0, treated like 12.4 (REPRISE_DRIVER_VERSION)\n"));
}

TEST(RepriseDoctor, ComparesTheChosenDeviceWithThoseThatThereAre) {
  const Outcome second = with_driver({}, {"REPRISE_DEVICE=cuda:1"});
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_THAT(second.out,
              HasSubstr("setting    REPRISE_DEVICE=cuda:1: programs use cuda:1, unless they name another one\n"));
  const Outcome third = with_driver({}, {"REPRISE_DEVICE=cuda:2"});
  EXPECT_EQ(third.exit_code, 2);
  EXPECT_THAT(third.out, HasSubstr("expected the number of a CUDA device below 2; found \"cuda:2\""));
}

TEST(RepriseDoctor, NamesDevicesThatOwnKernelsHaveNoCodeFor) {
  EXPECT_THAT(
      with_driver({}, {"FAKE_LIBCUDA_CAPABILITY=75"}).out,
      HasSubstr("missing    own kernels for Device 0 of a test: its compute capability is 7.5, and they need 8.0\n"));
}

TEST(RepriseDoctor, ExitsWith0WhereOneOfTwoDevicesWorks) {
  const Outcome outcome = with_driver({}, {"FAKE_LIBCUDA_CONTEXT_1=2"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("missing    Device 1 of a test: cuDevicePrimaryCtxRetain returned 2"));
}

TEST(RepriseDoctor, ExitsWith1WhereThereIsNoDriverOrNoDevice) {
  for (const char* none : {"LD_LIBRARY_PATH=/nowhere", "FAKE_LIBCUDA_DEVICES=0", "FAKE_LIBCUDA_INIT=100"}) {
    const Outcome outcome = std::string(none).starts_with("LD_") ? run_doctor({}, {none}) : with_driver({}, {none});
    if (outcome.exit_code == 0) GTEST_SKIP() << "this machine has a GPU";
    EXPECT_EQ(outcome.exit_code, 1) << none;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("missing    CUDA devices: "), HasSubstr("disables: GPUs"),
                                   HasSubstr("result     host devices alone\n")));
  }
}

TEST(RepriseDoctor, ExitsWith2WhereAGpuCannotBeUsed) {
  for (const Lines& broken :
       {Lines{"FAKE_LIBCUDA_VERSION=12030"}, Lines{"FAKE_LIBCUDA_INIT=803"}, Lines{"FAKE_LIBCUDA_LACKS=cuGraphAddNode"},
        Lines{"REPRISE_DRIVER_VERSION=new"}, Lines{"FAKE_LIBCUDA_DEVICES=-999"},
        Lines{"FAKE_LIBCUDA_CONTEXT=2", "FAKE_LIBCUDA_CONTEXT_1=2"}}) {
    const Outcome outcome = with_driver({}, broken);
    EXPECT_EQ(outcome.exit_code, 2) << broken[0];
    EXPECT_THAT(outcome.out, HasSubstr("result     there is a GPU or a driver that cannot be used\n"));
    EXPECT_EQ(json_of(with_driver({"--json"}, broken))["exit_code"], 2);
  }
  EXPECT_THAT(with_driver({}, {"REPRISE_DRIVER_VERSION=new"}).out,
              HasSubstr("setting    REPRISE_DRIVER_VERSION=new: GPUs are not used: the environment variable"));
}

#endif

}  // namespace
}  // namespace reprise::test
