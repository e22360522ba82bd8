// SPDX-License-Identifier: Apache-2.0
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/libtorch/host/autocast.h"

// Autocast keeps the casts of weights in a cache. Captures neither read nor fill it.

namespace reprise::libtorch::test {
namespace {

class AutocastCache : public OnDevice {
 protected:
  AutocastCache() { static_cast<void>(torch::mm(x_, x_.t())); }  // makes the handle of cuBLAS
  ~AutocastCache() override { at::autocast::clear_cache(); }

  class Region : public Autocast {
   public:
    Region() : Autocast({}, tested_device().type()) {}
  };

  Tensor forward() const { return torch::mm(x_, weight_); }
  /// The result for a weight whose elements are all of this value.
  static Tensor of(float weight) { return torch::full({2, 4}, 4 * weight, torch::kHalf); }
  void set_weight(float value) const { weight_.detach().fill_(value); }

  /// The cache has the cast of a weight of ones, which is computed now.
  void fill_cache() const { ASSERT_TRUE(same(forward(), of(1))); }
  /// Changes the weight: what is cast already is not cast again.
  bool is_in_cache() const {
    set_weight(7);
    const bool kept = same(forward(), of(1));
    EXPECT_TRUE(kept || same(forward(), of(7)));
    return kept;
  }
  static int regions() {
    const int before = at::autocast::increment_nesting() - 1;
    at::autocast::decrement_nesting();
    return before;
  }

  const Tensor weight_ = torch::ones({4, 4}, device_).requires_grad_();
  const Tensor x_ = torch::ones({2, 4}, torch::TensorOptions(torch::kHalf).device(device_));
  CUDAGraph graph_;
  Tensor result_;
};

TEST_F(AutocastCache, IsNotFilledByACapture) {
  const Region region;
  capture(graph_, [&] { result_ = forward(); });
  EXPECT_TRUE(same(forward(), of(1))) << "nothing was replayed: what the capture cast was never computed";
  graph_.replay();
  EXPECT_TRUE(same(result_, of(1)));
}

TEST_F(AutocastCache, IsNotReadByACapture) {
  const Region region;
  fill_cache();
  GraphOptions options;
  options.check_input_liveness = true;
  capture(graph_, options, [&] { result_ = forward(); });
  EXPECT_EQ(std::ranges::count(graph_.inputs(), weight_.data_ptr(), &GraphInput::address), 1);
  at::autocast::clear_cache();
  set_weight(3);
  graph_.replay();
  EXPECT_TRUE(same(result_, of(3)));
}

TEST_F(AutocastCache, IsAsBeforeAfterACapture) {
  const Region region;
  fill_cache();
  capture(graph_, [&] {
    const Region inner;
    result_ = forward();
  });
  EXPECT_TRUE(is_in_cache());
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

TEST_F(AutocastCache, IsAsBeforeAfterACaptureWithARegionOfItsOwn) {
  at::autocast::set_autocast_enabled(device_.type(), true);
  fill_cache();  // outside of regions, as one of another thread
  capture(graph_, [&] {
    const Region outermost;
    result_ = forward();
  });
  EXPECT_TRUE(is_in_cache());
  EXPECT_EQ(regions(), 0);
  at::autocast::set_autocast_enabled(device_.type(), false);
}

TEST_F(AutocastCache, IsAsBeforeAfterACaptureThatFails) {
  const Region region;
  fill_cache();
  EXPECT_THROW(capture(graph_,
                       [&] {
                         result_ = forward();
                         throw std::runtime_error("of the body");
                       }),
               std::runtime_error);
  EXPECT_EQ(regions(), 1);
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  EXPECT_TRUE(is_in_cache());
}

TEST_F(AutocastCache, IsNotUsedByACaptureWhoseBodyEnablesIt) {
  const Region region;
  at::autocast::set_autocast_cache_enabled(false);
  capture(graph_, [&] {
    at::autocast::set_autocast_cache_enabled(true);
    result_ = forward();
    result_ = forward();
  });
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled()) << "as the body left it";
  EXPECT_TRUE(same(forward(), of(1)));
}

TEST_F(AutocastCache, IsNeitherReadNorFilledByARelaxedCapture) {
  const Region region;
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  capture(graph_, options, [&] { result_ = forward(); });
  EXPECT_TRUE(same(forward(), of(1))) << "what the capture cast was never computed";
  EXPECT_TRUE(is_in_cache());  // the weight is 7 now, its cast of before 1
  graph_.reset();
  capture(graph_, options, [&] { result_ = forward(); });
  graph_.replay();
  EXPECT_TRUE(same(result_, of(7)));
  EXPECT_TRUE(same(forward(), of(1))) << "the cache is as before";
}

TEST_F(AutocastCache, IsEmptyAfterARelaxedCaptureWithAnOutermostRegion) {
  at::autocast::set_autocast_enabled(device_.type(), true);
  fill_cache();  // outside of regions, as one of another thread
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  capture(graph_, options, [&] {
    const Region outermost;
    result_ = forward();
  });
  EXPECT_FALSE(is_in_cache()) << "its end is not held back: the capture may end on another thread";
  EXPECT_EQ(regions(), 0);
  at::autocast::clear_cache();
  EXPECT_TRUE(same(forward(), of(7)));
  graph_.replay();
  EXPECT_TRUE(same(result_, of(7)));
  at::autocast::set_autocast_enabled(device_.type(), false);
}

TEST_F(AutocastCache, IsNotUsedByOtherThreadsThatTakePartInACapture) {
  const Region region;
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  capture(graph_, options, [&] {
    const StreamRef here = current_stream();
    std::thread([&] {
      const StreamGuard guard(here);
      at::autocast::increment_nesting();  // so that the end of the region does not clear the cache
      const Region of_thread;
      result_ = forward();
    }).join();
  });
  EXPECT_TRUE(same(forward(), of(1)));
}

TEST_F(AutocastCache, IsClearedByTheOutermostRegionThatEndsInACapture) {
  {
    std::optional<Region> region(std::in_place);
    fill_cache();
    graph_.capture_begin();
    result_ = x_.add(1);
    region.reset();
    graph_.capture_end();
  }
  EXPECT_EQ(regions(), 0);
  set_weight(7);
  const Region next;
  EXPECT_TRUE(same(forward(), of(7)));
}

}  // namespace
}  // namespace reprise::libtorch::test
