// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "backend/framework.h"
#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/graph/graph_fixture.h"

// Streams of a framework that uses them after the end of their Stream.

namespace reprise::graphs::test {
namespace {

using reprise::test::Gate;
using reprise::test::ScopedFramework;

class UsesEndedStreams final : public backend::Framework {
 public:
  std::string_view name() const noexcept override { return "uses ended streams"; }
  bool keeps_streams(DeviceType type) const noexcept override { return type == default_device().type(); }
};

class KeptStreams : public ::testing::Test {
 protected:
  // Destroys the kept streams: without the framework, new ones take their handles and are not kept.
  ~KeptStreams() override {
    scope_.reset();
    default_device().synchronize();
    for (int i = 0; i < 4; ++i) {
      const Stream plain, blocking(default_device(), {.blocking = true});
    }
  }
  static StreamRef ended(StreamOptions options = {}) { return Stream(default_device(), options).ref(); }

  const UsesEndedStreams framework_{};
  std::optional<ScopedFramework> scope_{framework_};
};

TEST_F(KeptStreams, TakeWorkAfterTheEndOfTheirStream) {
  Buffer<int> x = zeros();
  const StreamRef stream = ended();
  stream.wait(current_stream());
  {
    const StreamGuard guard(stream);
    add(x);
  }
  stream.synchronize();
  EXPECT_EQ(first(x), 1);
}

TEST_F(KeptStreams, AreReusedByStreamsWithTheSameOptions) {
  const StreamRef plain = ended();
  const Stream blocking(default_device(), {.blocking = true});
  EXPECT_NE(blocking.native(), plain.native());
  EXPECT_EQ(ended(), plain);
  EXPECT_EQ(ended(), plain);
}

TEST_F(KeptStreams, WithPendingWorkAreNotReused) {
  Gate gate;
  std::optional<Stream> stream(std::in_place);
  const StreamRef busy = *stream;
  call_on_host(busy, &Gate::pass, &gate);
  stream.reset();
  {
    const Stream next;
    EXPECT_NE(next.native(), busy.native());
    next.synchronize();
  }
  gate.open();
  busy.synchronize();
}

TEST_F(KeptStreams, InACaptureAreNotReused) {
  CUDAGraph graph;
  Buffer<int> x = zeros();
  std::optional<Stream> stream(std::in_place);
  const StreamRef captured = *stream;
  {
    const StreamGuard guard(captured);
    graph.capture_begin();
    add(x);
  }
  stream.reset();
  {
    const Stream next;
    EXPECT_NE(next.native(), captured.native());
  }
  {
    const StreamGuard guard(captured);
    graph.capture_end();
  }
  graph.replay();
  EXPECT_EQ(first(x), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
