// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <optional>

#include "tests/libtorch/both_devices/device_fixture.h"

// Memory that is freed in the capture that allocated it: whether the capture uses it again.

namespace reprise::libtorch::test {
namespace {

class FreedInACapture : public OnDevice {
 protected:
  /// Runs work on the side stream in the order of the current one.
  void on_side(const std::function<void()>& work) const {
    const StreamRef main = current_stream();
    side_.wait(main);
    {
      const StreamGuard guard(side_);
      work();
    }
    main.wait(side_);
  }

  const Stream side_;
  Tensor sum_ = torch::zeros({1000}, device_);
  CUDAGraph graph_;
};

TEST_F(FreedInACapture, MemoryOfATensorIsUsedAgain) {
  capture(graph_, [&] {
    Tensor x = torch::ones({1000}, device_);
    const void* const memory = x.data_ptr();
    sum_.add_(x);
    x.reset();
    x = torch::ones({1000}, device_);
    EXPECT_EQ(x.data_ptr(), memory);
  });
}

TEST_F(FreedInACapture, MemoryOfATensorThatAnotherStreamWasRecordedForIsHeldBack) {
  capture(graph_, [&] {
    Tensor x = torch::ones({1000}, device_);
    const void* const memory = x.data_ptr();
    on_side([&] { sum_.add_(x); });
    x.record_stream(c10_stream(side_));
    x.reset();
    x = torch::ones({1000}, device_);
    EXPECT_NE(x.data_ptr(), memory);
    sum_.add_(x);
  });
  graph_.replay();
  EXPECT_TRUE(same(sum_, torch::full({1000}, 2.0F)));
}

TEST_F(FreedInACapture, MemoryOfABufferIsHeldBackInTheSameWay) {
  for (const bool recorded : {false, true}) {
    graph_.reset();
    capture(graph_, [&] {
      sum_.add_(1);
      std::optional<Buffer<float>> x(std::in_place, 1000);
      const float* const memory = x->data();
      if (recorded) x->record_stream(side_);
      x.reset();
      x.emplace(1000);
      EXPECT_EQ(x->data() != memory, recorded);
    });
  }
}

}  // namespace
}  // namespace reprise::libtorch::test
