// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of control flow within graphs share.

namespace reprise::graphs::test {

using Flag = std::uint32_t;

/// flag -= 1, unless it is 0.
struct CountDown {
  REPRISE_KERNEL void operator()(Thread, Flag* flag) const {
    if (*flag > 0) --*flag;
  }
  static auto accesses(Flag* flag) { return std::array{reads(flag, 1), writes(flag, 1)}; }
};

/// flag = value
struct SetFlag {
  REPRISE_KERNEL void operator()(Thread, Flag* flag, Flag value) const { *flag = value; }
  static auto accesses(Flag* flag, Flag) { return std::array{writes(flag, 1)}; }
};

class ControlFlow : public ::testing::Test {
 protected:
  void set(Flag value) { flag_.write(std::array{value}); }
  void count_down(Buffer<Flag>& flag, const StreamRef& stream = current_stream()) {
    launch(stream, LaunchConfig{}, CountDown{}, flag.data());
  }
  void set_flag(Buffer<Flag>& flag, Flag value) {
    launch(current_stream(), LaunchConfig{}, SetFlag{}, flag.data(), value);
  }
  void count_down() { count_down(flag_); }
  /// A graph whose loop counts the flag down, and adds 1 to x in each iteration.
  CUDAGraph counting(Loop* loop = nullptr, const LoopOptions& options = {}) {
    return capture([&] {
      const Loop made = while_(
          flag_.data(),
          [&] {
            add(x_);
            count_down();
          },
          options);
      if (loop != nullptr) *loop = made;
    });
  }

  Buffer<Flag> flag_{std::array<Flag, 1>{0}};
  Buffer<int> x_ = zeros();
  Buffer<int> y_ = zeros();
};

/// Control flow that is refused.
class RefusedControlFlow : public ControlFlow {
 protected:
  /// The text of the error of a capture, after which everything can be used again.
  template <class E>
  std::string error_of(const std::function<void()>& body, const GraphOptions& options = {}) {
    CUDAGraph graph;
    const std::string what = text_of<E>([&] { capture(graph, options, body); });
    EXPECT_EQ(current_stream().capture_status(), CaptureStatus::none);
    capture(graph, [&] { if_(flag_.data(), [&] { add(y_); }); });
    set(1);
    const int before = first(y_);
    graph.replay();
    EXPECT_EQ(first(y_), before + 1);
    return what;
  }
  /// The error of a body with this work besides a kernel.
  std::string error_of_body(const std::function<void(const StreamRef&)>& work) {
    return error_of<UsageError>([&] {
      if_(flag_.data(), [&](const StreamRef& inside) {
        add(x_);
        work(inside);
      });
    });
  }
};

}  // namespace reprise::graphs::test
