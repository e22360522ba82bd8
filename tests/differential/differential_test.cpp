// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/differential/run.h"

namespace reprise::differential {
namespace {

TEST(RandomPrograms, ASeedGivesTheSameProgramAgain) {
  EXPECT_EQ(print_source(generate(5, {})), print_source(generate(5, {})));
  EXPECT_NE(print_source(generate(5, {})), print_source(generate(6, {})));
}

}  // namespace
}  // namespace reprise::differential
