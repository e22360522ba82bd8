// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <set>
#include <vector>

#include "tests/libtorch/both_devices/device_fixture.h"

// libtorch expects streams to live until the process ends: what it does with one whose Stream has ended.

namespace reprise::libtorch::test {
namespace {

using ::testing::Le;
using ::testing::SizeIs;

class EndedStreams : public OnDevice {
 protected:
  Tensor ones() const { return torch::ones({1000}, device_); }

  /// Runs the work on a Stream that has ended when this returns, and returns libtorch's view of that stream.
  c10::Stream on_ended_stream(const std::function<void()>& work) const {
    const Stream side;
    side.wait(stream_);
    {
      const StreamGuard guard(side);
      work();
    }
    stream_.wait(side);
    return c10_stream(side);
  }
};

TEST_F(EndedStreams, CanBeRecordedAsUsersOfMemory) {
  auto x = ones(), sum = torch::zeros({1000}, device_);
  const c10::Stream ended = on_ended_stream([&] { sum.add_(x); });
  x.record_stream(ended);
  x.reset();
  for (int i = 0; i < 3; ++i) sum.add_(ones());
  memory_of_tensors();
  EXPECT_TRUE(same(sum, torch::full({1000}, 4.0F)));
}

TEST_F(EndedStreams, WereCurrentWhenMemoryWasAllocatedThatIsFreedLater) {
  std::vector<Tensor> made;
  on_ended_stream([&] {
    for (int i = 0; i < 4; ++i) made.push_back(torch::ones({1 << 20}, device_));
  });
  const auto before = memory_of_tensors().reserved_bytes;
  for (const Tensor& each : made) EXPECT_EQ(each.sum().item<float>(), 1 << 20);
  made.clear();
  EXPECT_LT(memory_of_tensors().reserved_bytes, before);
  EXPECT_EQ(ones().sum().item<float>(), 1000);
}

TEST_F(EndedStreams, AreWhereTheBackwardPassOfTheirForwardPassRuns) {
  const auto x = ones().requires_grad_();
  Tensor loss;
  const c10::Stream ended = on_ended_stream([&] { loss = (x * x).sum(); });
  loss.backward();
  EXPECT_TRUE(same(x.grad(), torch::full({1000}, 2.0F)));
  EXPECT_TRUE(stream_ref(ended).query());
}

TEST_F(EndedStreams, AreReusedSoThatManyHaveFewHandles) {
  std::set<StreamHandle> handles;
  for (int i = 0; i < 200; ++i) {
    const Stream side;
    handles.insert(side.native());
    const StreamGuard guard(side);
    EXPECT_EQ(ones().sum().item<float>(), 1000);
  }
  EXPECT_THAT(handles, SizeIs(Le(2U)));
}

TEST_F(EndedStreams, AreReusedByStreamsWithTheSameOptionsAlone) {
  const auto handle_of = [](StreamOptions options) { return Stream(current_device(), options).native(); };
  StreamOptions blocking;
  blocking.blocking = true;
  const StreamHandle plain = handle_of({});
  const Stream first(current_device(), blocking);
  EXPECT_NE(first.native(), plain);
  EXPECT_EQ(handle_of({}), plain);
}

TEST_F(EndedStreams, ThatAreBeingCapturedAreNotReused) {
  CUDAGraph graph;
  const auto x = ones();
  auto side = std::make_unique<Stream>();
  const StreamHandle captured = side->native();
  {
    const StreamGuard guard(*side);
    graph.capture_begin();
    x.add_(1);
  }
  side.reset();
  const Stream next;
  EXPECT_NE(next.native(), captured);
  EXPECT_EQ(next.capture_status(), CaptureStatus::none);
}

TEST_F(EndedStreams, LeaveNothingToTheNextOneThatReusesThem) {
  const auto x = ones();
  for (int i = 0; i < 3; ++i) {
    const Stream side;
    EXPECT_TRUE(side.query());
    side.wait(stream_);
    CUDAGraph graph;
    {
      const StreamGuard guard(side);
      graph.capture_begin();
      x.add_(1);
      graph.capture_end();
      graph.replay();
    }
    side.synchronize();
  }
  EXPECT_TRUE(same(x, torch::full({1000}, 4.0F)));
}

}  // namespace
}  // namespace reprise::libtorch::test
