// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>

#include "reprise/error.h"
#include "tests/support/text_of.h"

namespace reprise::test {

/// A call that is refused, and a part of the text that says why.
struct Refused {
  std::function<void()> call;
  const char* text;
};

/// Each of the calls throws an exception of type E, with its text.
template <class E = UsageError>
void expect_refused(std::initializer_list<Refused> calls) {
  for (const Refused& each : calls) {
    SCOPED_TRACE(each.text);
    EXPECT_THAT(text_of<E>(each.call), ::testing::HasSubstr(each.text));
  }
}

}  // namespace reprise::test
