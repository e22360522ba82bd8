// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
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

TEST(RepriseDoctor, SaysHowItIsUsed) {
  EXPECT_THAT(run_doctor({"--help"}, {}).out, HasSubstr("Exit code: 0 if there is a usable GPU"));
}

TEST(RepriseDoctor, SaysWhatTheEnvironmentSets) {
  const std::string out = run_doctor({}, {"REPRISE_DEVICE=host", "REPRISE_HOST_RACES=1", "REPRISE_HOST_DEVICE=2"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("setting    REPRISE_DEVICE=host\n"), HasSubstr("setting    REPRISE_HOST_RACES=1\n"),
                         HasSubstr("setting    REPRISE_HOST_DEVICE=2: unknown: programs do not read it\n")));
  EXPECT_THAT(run_doctor({}, {"REPRISE_DEVICE=", "REPRISE_HOST_RACES="}).out, Not(HasSubstr("setting")));
}

#ifdef FAKE_LIBCUDA_DIRECTORY
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

TEST(RepriseDoctor, NamesWhatAnOlderDriverLacks) {
  const Outcome outcome = with_driver({}, {"FAKE_LIBCUDA_VERSION=12040"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("12.4"),
                    HasSubstr("missing    conditional nodes with several bodies: the driver is older than CUDA 12.8\n"
                              "           disables: if_else"),
                    HasSubstr("missing    the driver's error log: the driver is older than CUDA 12.9\n"),
                    HasSubstr("missing    ids of nodes for profilers: the driver is older than CUDA 13.1\n")));
  EXPECT_THAT(with_driver({}, {"FAKE_LIBCUDA_VERSION=12080"}).out,
              AllOf(Not(HasSubstr("conditional nodes")), HasSubstr("error log")));
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
        Lines{"FAKE_LIBCUDA_DEVICES=-999"}, Lines{"FAKE_LIBCUDA_CONTEXT=2", "FAKE_LIBCUDA_CONTEXT_1=2"}}) {
    const Outcome outcome = with_driver({}, broken);
    EXPECT_EQ(outcome.exit_code, 2) << broken[0];
    EXPECT_THAT(outcome.out, HasSubstr("result     there is a GPU or a driver that cannot be used\n"));
  }
}

#endif

}  // namespace
}  // namespace reprise::test
