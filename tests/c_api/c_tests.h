// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/c_api.h"

// What the tests in C share with the program that runs them, which is C++.

#ifdef __cplusplus
extern "C" {
#endif

struct c_test {
  const char* suite;
  const char* name;
  void (*run)(void);
};
extern const struct c_test c_tests[];
extern const size_t c_test_count;

/// Fails the running test.
void c_test_failed(const char* file, int line, const char* text, const char* detail);

/// Launches a kernel of C++, named AddTo, that adds `value` to each of `count` numbers in device memory.
reprise_status launch_add_to(const reprise_stream* stream, int* numbers, int value, size_t count);

#define EXPECT(condition) ((condition) ? (void)0 : c_test_failed(__FILE__, __LINE__, #condition, reprise_last_error()))
#define EXPECT_OK(call) EXPECT((call) == REPRISE_SUCCESS)

#ifdef __cplusplus
}
#endif
