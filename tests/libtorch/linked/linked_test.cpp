// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/framework.h"
#include "reprise/libtorch/install.h"

// A program that is linked with the component and uses nothing of it but a header.

namespace reprise::libtorch::test {
namespace {

TEST(Component, IsInstalledWhereItsHeaderIsIncluded) {
  const backend::Framework* const framework = backend::installed_framework();
  ASSERT_NE(framework, nullptr) << "the linker dropped it";
  EXPECT_EQ(framework->name(), "libtorch");
  EXPECT_NE(framework->captures(), nullptr) << "captures leave the operators out";
}

}  // namespace
}  // namespace reprise::libtorch::test
