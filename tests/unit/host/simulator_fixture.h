// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// What the tests of simulators share.

namespace reprise::simulator_test {

using graphs::test::add;
using graphs::test::call_on_host;
using graphs::test::first;
using graphs::test::text_of;
using graphs::test::zeros;
using reprise::test::Gate;
using reprise::test::Warnings;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A simulator whose device is the current one.
class CurrentSimulator : public HostSimulator {
 public:
  explicit CurrentSimulator(const HostDeviceOptions& options = {}) : HostSimulator(options) {}

 private:
  const DeviceGuard guard_{device()};
};

}  // namespace reprise::simulator_test
