// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// What the tests share that have a libcupti.so.13 of their own in front of any other. It is opened once in a process,
// so each test has a process of its own.

namespace reprise::backend::cuda::test {

template <class Function>
Function find(const char* library, const char* name) {
  void* const opened = dlopen(library, RTLD_NOW);
  return opened != nullptr ? reinterpret_cast<Function>(dlsym(opened, name)) : nullptr;
}

inline bool has_subscriber() {
  return find<bool (*)()>("libcupti.so.13", "fake_cupti_has_subscriber")();
}

class FakeCuptiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    const char* const before = std::getenv("LD_LIBRARY_PATH");
    if (before != nullptr) path_before_ = before;
    // Read when the process of its own starts.
    setenv("LD_LIBRARY_PATH", FAKE_LIBCUDA_DIRECTORY ":" FAKE_LIBCUPTI_DIRECTORY, 1);
  }
  void TearDown() override {
    setenv("LD_LIBRARY_PATH", path_before_.c_str(), 1);
    for (const char* name : {"FAKE_LIBCUPTI_SUBSCRIBE", "FAKE_LIBCUPTI_ENABLE", "FAKE_LIBCUPTI_HOLDER",
                             "FAKE_LIBCUPTI_ACTIVITY", "FAKE_LIBCUPTI_DROPPED", "FAKE_LIBCUPTI_HELD"})
      unsetenv(name);
  }

 private:
  std::string path_before_;
};

// In a process of its own: ends it if something is not so.
inline void require(bool so, const char* what) {
  if (so) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

}  // namespace reprise::backend::cuda::test
