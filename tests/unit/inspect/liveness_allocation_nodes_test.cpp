// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "tests/unit/inspect/liveness_fixture.h"

// Memory of allocation nodes of another graph, as an input.

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LivenessOfAllocationNodes, IsCheckedWithAllAloneAndAsLongAsTheirGraphLivesTheyCount) {
  const SideStream stream;
  int* memory = nullptr;
  std::optional<CUDAGraph> maker = capture({.instantiate_flags = InstantiateFlags::none}, [&] {
    memory = static_cast<int*>(allocate_async(n * sizeof(int)));
    fill_async(memory, 1, n * sizeof(int));
  });
  maker->replay();
  const auto work = [&] { launch(n, Add{}, memory, 1, n); };
  CUDAGraph user = capture(with_check(Liveness::all), work);
  EXPECT_THAT(addresses(user.inputs()), ElementsAre(memory));
  EXPECT_THAT(capture(with_check(), work).inputs(), IsEmpty());
  maker.reset();  // its memory stays
  user.replay();
  free_async(memory);
  stream.ref().synchronize();
  EXPECT_THAT(addresses(dead_inputs(user)), ElementsAre(memory));
}

}  // namespace
}  // namespace reprise::graphs::test
