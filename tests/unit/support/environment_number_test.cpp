// SPDX-License-Identifier: Apache-2.0
#include "tests/support/environment_number.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tests/support/text_of.h"

namespace reprise::test {
namespace {

constexpr const char* number_variable = "REPRISE_TEST_NUMBER";

class EnvironmentNumber : public ::testing::Test {
 protected:
  ~EnvironmentNumber() override { unsetenv(number_variable); }
};

TEST_F(EnvironmentNumber, IsTheGivenOneWhereTheVariableIsEmptyOrNotSet) {
  EXPECT_EQ(environment_number(number_variable, 7), 7U);
  setenv(number_variable, "", 1);
  EXPECT_EQ(environment_number(number_variable, 7, 100), 7U);
}

TEST_F(EnvironmentNumber, IsThatOfTheVariableWithinTheBounds) {
  for (const char* const text : {"3", "4", "5"}) {
    setenv(number_variable, text, 1);
    EXPECT_EQ(environment_number(number_variable, 7, 3, 5), std::strtoul(text, nullptr, 10));
  }
}

TEST_F(EnvironmentNumber, RefusesWhatIsNoNumberOrOutOfBounds) {
  for (const char* const text : {"2", "6", "4x", "many", "-4", "18446744073709551616"}) {
    setenv(number_variable, text, 1);
    EXPECT_EQ(text_of<std::invalid_argument>([] { environment_number(number_variable, 4, 3, 5); }),
              "the environment variable REPRISE_TEST_NUMBER should be a whole number from 3 to 5, but it is \"" +
                  std::string(text) + "\"");
  }
}

}  // namespace
}  // namespace reprise::test
