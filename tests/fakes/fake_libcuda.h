// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace reprise::backend::cuda::test {

/// Has processes of their own, EXPECT_EXIT, open a libcuda.so.1 of the tests' own in front of any other: the driver is
/// opened once in a process. FAKE_LIBCUDA_* (tests/fakes/fake_libcuda) say what it is like, until the test ends.
class WithFakeLibcuda : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    // Read when the process of its own starts.
    const char* const before = std::getenv("LD_LIBRARY_PATH");
    if (before != nullptr) path_before_ = before;
    setenv("LD_LIBRARY_PATH", FAKE_LIBCUDA_DIRECTORY, 1);
  }
  void TearDown() override {
    setenv("LD_LIBRARY_PATH", path_before_.c_str(), 1);
    for (const char* name : {"FAKE_LIBCUDA_VERSION", "FAKE_LIBCUDA_INIT", "FAKE_LIBCUDA_DEVICES", "FAKE_LIBCUDA_LACKS",
                             "FAKE_LIBCUDA_SHUT_DOWN"})
      unsetenv(name);
  }

 private:
  std::string path_before_;
};

}  // namespace reprise::backend::cuda::test
