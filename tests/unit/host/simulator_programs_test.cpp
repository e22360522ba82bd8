// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

#include "tests/unit/graph/graph_fixture.h"

// Programs as users write them: a device for one test, without guards.

namespace reprise::simulator_test {
namespace {

using graphs::test::Add;
using ::testing::IsEmpty;

TEST(SimulatorPrograms, SeveralSchedulesAndRacesAsValues) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    HostSimulator sim({.check_races = true, .scheduler_seed = seed});
    Buffer<int> x(std::vector<int>(4, 0), current_stream(sim.device()));
    auto g = capture(sim.device(), [&] { launch(x.size(), Add{}, x.data(), 3, x.size()); });
    g.replay();
    EXPECT_EQ(x.read(), std::vector<int>(4, 3));
    EXPECT_THAT(sim.races(), IsEmpty());
  }
}

TEST(SimulatorPrograms, AHostBufferMayOutliveItsSimulator) {
  HostBuffer<int> host;
  {
    HostSimulator sim;
    host = HostBuffer<int>(std::vector<int>{1, 2}, sim.device());
  }
  EXPECT_EQ(host[1], 2);
  host = HostBuffer<int>();
  EXPECT_EQ(host.size(), 0U);
}

}  // namespace
}  // namespace reprise::simulator_test
