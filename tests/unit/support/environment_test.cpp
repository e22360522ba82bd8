// SPDX-License-Identifier: Apache-2.0
#include "support/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "memory/watches/allocation_stacks.h"
#include "tests/support/warnings.h"

namespace reprise::support {
namespace {

using reprise::test::Warnings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A variable that has a value until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Environment, IsEmptyWhereAVariableIsNotSet) {
  EXPECT_EQ(environment("REPRISE_TEST_VALUE"), "");
  EXPECT_EQ(trusted_environment("REPRISE_TEST_VALUE"), "");
  const Variable variable("REPRISE_TEST_VALUE", "a value");
  EXPECT_EQ(environment("REPRISE_TEST_VALUE"), "a value");
  EXPECT_EQ(trusted_environment("REPRISE_TEST_VALUE"), "a value");
}

TEST(Environment, TakesWholeNumbersInDigitsAlone) {
  EXPECT_EQ(whole_number("0"), 0U);
  EXPECT_EQ(whole_number("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "0x10", "1e3", "18446744073709551616", "yes"})
    EXPECT_EQ(whole_number(text), std::nullopt) << text;
}

TEST(Environment, FlagsAreZeroOrOne) {
  const Warnings warnings;
  EXPECT_FALSE(environment_flag("REPRISE_TEST_FLAG"));
  {
    const Variable variable("REPRISE_TEST_FLAG", "0");
    EXPECT_FALSE(environment_flag("REPRISE_TEST_FLAG"));
  }
  {
    const Variable variable("REPRISE_TEST_FLAG", "");
    EXPECT_FALSE(environment_flag("REPRISE_TEST_FLAG"));
  }
  const Variable variable("REPRISE_TEST_FLAG", "1");
  EXPECT_TRUE(environment_flag("REPRISE_TEST_FLAG"));
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST(Environment, AFlagThatCannotBeReadGivesOneWarning) {
  const Warnings warnings;
  const Variable variable("REPRISE_TEST_FLAG_THAT_IS_UNREADABLE", "yes");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(environment_flag("REPRISE_TEST_FLAG_THAT_IS_UNREADABLE"));
  EXPECT_THAT(warnings.texts(), ElementsAre("the environment variable REPRISE_TEST_FLAG_THAT_IS_UNREADABLE should be 0 "
                                            "or 1, but it is \"yes\": it counts as 0"));
}

// Read as the process starts.
TEST(Environment, AnUnreadableRequestForStacksIsNotIgnoredInSilence) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Variable variable("REPRISE_MEMORY_STACKS", "yes");
  EXPECT_EXIT(std::_Exit(memory::allocation_stacks_are_recorded() ? 1 : 0), ::testing::ExitedWithCode(0),
              HasSubstr("the environment variable REPRISE_MEMORY_STACKS should be 0 or 1, but it is \"yes\": it counts "
                        "as 0"));
}

}  // namespace
}  // namespace reprise::support
