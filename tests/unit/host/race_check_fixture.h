// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "reprise/reprise.h"
#include "tests/support/host_environment.h"

// The race check of the host device. It is on for a whole process, so each test runs its body in one of its own; what
// the check says goes to standard error, and the process ends with the number of reports.

namespace reprise::race_test {

constexpr std::size_t n = 100;

// The kernels only declare accesses, since a sanitizer would report real races, too. Where copies race, the first one
// is done before the second one is submitted.
struct Write {
  REPRISE_KERNEL void operator()(Thread, int*, std::size_t) const {}
  static auto accesses(int* x, std::size_t count) { return std::array{writes(x, count)}; }
};

struct Read {
  REPRISE_KERNEL void operator()(Thread, const int*, std::size_t) const {}
  static auto accesses(const int* x, std::size_t count) { return std::vector{reads(x, count)}; }
};

struct DeclaresNothing {
  REPRISE_KERNEL void operator()(Thread, int*, std::size_t) const {}
};

inline void write(const StreamRef& stream, const Buffer<int>& x) {
  launch(stream, n, Write{}, x.data(), x.size());
}
inline void read(const StreamRef& stream, const Buffer<int>& x) {
  launch(stream, n, Read{}, x.data(), x.size());
}

inline std::atomic<int> reports{0};

inline void expect_reports(int expected, void (*body)(), const char* text = "", int devices = 1, bool check = true) {
  const auto run = [&] {
    reprise::test::set_host_environment({.check_races = check}, devices);
    set_log_sink([](std::string_view message) {
      ++reports;
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
    });
    const DeviceGuard guard(Device::parse("host"));
    body();
    std::_Exit(reports);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(expected), text);
}

class RaceCheck : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

/// A buffer and two streams that nothing orders.
struct Scene {
  Stream a, b;
  Buffer<int> x{n, a};
};

inline backend::Backend& host() {
  return Device::parse("host").backend();
}

/// Waits for the work of the stream without a call of the runtime.
inline void let_finish(const StreamRef& stream) {
  static std::atomic<bool> reached;
  reached = false;
  const backend::HostNodeParams params{[](void*) { reached = true; }, nullptr};
  if (host().launch_host_function(params, stream.native()) != ErrorCode::success) std::_Exit(100);
  while (!reached) std::this_thread::yield();
}

template <class T>
T* pinned(std::size_t count) {
  void* memory = nullptr;
  if (host().pinned_allocate(&memory, count * sizeof(T)) != ErrorCode::success) std::_Exit(100);
  return static_cast<T*>(memory);
}

}  // namespace reprise::race_test
