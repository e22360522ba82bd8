// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "support/environment.h"

namespace reprise::test {

/// True if host devices run one operation at a time, on the thread that waits for it: REPRISE_HOST_SCHEDULER is a seed.
inline bool runs_by_steps() {
  const std::string_view scheduler = support::environment("REPRISE_HOST_SCHEDULER");
  return !scheduler.empty() && scheduler != "threads";
}

/// Ends the test that calls it as skipped where host devices run by steps: an operation that waits for the test's
/// thread would wait for itself. It throws what GoogleTest takes for a result that was reported already, so that it
/// works in functions and constructors, too.
inline void skip_by_steps() {
  if (!runs_by_steps()) return;
  static constexpr const char* why = "work of this test waits for the thread that would have to run it";
  [] { GTEST_SKIP() << why; }();
  throw ::testing::AssertionException(
      ::testing::TestPartResult(::testing::TestPartResult::kSkip, __FILE__, __LINE__, why));
}

}  // namespace reprise::test
