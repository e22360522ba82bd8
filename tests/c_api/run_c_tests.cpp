// SPDX-License-Identifier: Apache-2.0
// Runs the tests in C as tests of GoogleTest, and has the kernel that they launch.

#include <gtest/gtest.h>

#include <cstddef>

#include "reprise/kernel.h"
#include "reprise/stream.h"
#include "tests/c_api/c_tests.h"

namespace {

struct AddTo {
  REPRISE_KERNEL void operator()(reprise::Thread t, int* numbers, int value, std::size_t count) const {
    if (t.global_x() < count) numbers[t.global_x()] += value;
  }
};

class TestInC : public testing::Test {
 public:
  explicit TestInC(void (*run)()) : run_(run) {}
  void TestBody() override { run_(); }

 private:
  void (*run_)();
};

}  // namespace

void c_test_failed(const char* file, int line, const char* text, const char* detail) {
  ADD_FAILURE_AT(file, line) << "expected " << text << "; the last error is: " << detail;
}

reprise_status launch_add_to(const reprise_stream* stream, int* numbers, int value, size_t count) try {
  const reprise::StreamRef ref(static_cast<reprise::StreamHandle>(reprise_stream_native(stream)));
  reprise::launch(ref, count, AddTo{}, numbers, value, count);
  return REPRISE_SUCCESS;
} catch (...) {
  return REPRISE_ERROR_CALLBACK;
}

int main(int argc, char** argv) {
  for (size_t i = 0; i < c_test_count; ++i) {
    const c_test& test = c_tests[i];
    testing::RegisterTest(test.suite, test.name, nullptr, nullptr, __FILE__, __LINE__,
                          [run = test.run]() -> testing::Test* { return new TestInC(run); });
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
