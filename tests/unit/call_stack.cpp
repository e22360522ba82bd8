// SPDX-License-Identifier: Apache-2.0
#include "backend/call_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace reprise::backend {
namespace {

using ::testing::HasSubstr;

TEST(CallStack, NamesThisProgramByItsFullPath) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> stack = call_stack();
  ASSERT_FALSE(stack.empty());
  EXPECT_THAT(stack[0], HasSubstr(program + "+0x"));
}

}  // namespace
}  // namespace reprise::backend
