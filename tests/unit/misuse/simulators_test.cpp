// SPDX-License-Identifier: Apache-2.0
#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/refused.h"

// Wrong arguments of host_device.h and host_simulator.h.

namespace reprise::test {
namespace {

TEST(MisusedSimulators, OptionsOutOfRangeAreRefusedWithTheValue) {
  expect_refused({
      {[] { HostSimulator({.memory_bytes = 0}); }, "HostDeviceOptions::memory_bytes should be from 1048576"},
      {[] { HostSimulator({.memory_bytes = 1}); }, "but it is 1"},
      {[] { HostSimulator({.memory_bytes = SIZE_MAX}); }, "but it is 18446744073709551615"},
  });
}

TEST(MisusedSimulators, RacesAreNotKnownWithoutACheck) {
  const HostSimulator simulator;
  expect_refused({{[&] { simulator.races(); }, "HostSimulator::races() expected a simulator that looks for races"}});
}

TEST(MisusedSimulators, FailuresOfNoCallOrNoHostDeviceAreRefused) {
  // Devices live until the process ends.
  static auto& like_cuda = *new backend::test::FaultyBackend(Device::parse("host").backend(), DeviceType::cuda);
  expect_refused({
      {[] { InjectedFailure({.call = ""}); }, "expected the name of a call of the runtime"},
      {[] { InjectedFailure({.call = "cuNothing"}); }, "found \"cuNothing\""},
      {[] { InjectedFailure({.call = "cuMemAlloc", .code = ErrorCode::success}); }, "expected the code of an error"},
      {[] { InjectedFailure({.call = "cuMemAlloc", .nth = 0}); }, "counts calls from 1; found 0"},
      {[] { InjectedFailure({.call = "cuMemAlloc", .device = Device(like_cuda)}); },
       "InjectedFailure expected a host device"},
  });
}

}  // namespace
}  // namespace reprise::test
