// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/gate.h"
#include "tests/unit/graph/graph_fixture.h"

// Objects that live as long as a graph.

namespace reprise::graphs::test {
namespace {

class Retained : public ::testing::Test {
 protected:
  SideStream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
  std::shared_ptr<int> object_ = std::make_shared<int>(1);
  std::weak_ptr<int> watch_ = object_;
};

TEST_F(Retained, ObjectsLiveAsLongAsTheGraph) {
  capture(graph_, [&] {
    graph_.retain(std::move(object_));
    add(x_);
  });
  EXPECT_FALSE(watch_.expired());
  graph_.reset();
  EXPECT_TRUE(watch_.expired());
}

TEST_F(Retained, ObjectsWhoseDestructorReplaysTheGraphGetAnErrorThatNamesTheDestructor) {
  struct Replays {
    CUDAGraph& graph;
    std::string& text;
    ~Replays() {
      text = text_of<UsageError>([&] { graph.replay(); });
    }
  };
  std::string text;
  capture_increment(graph_, x_);
  graph_.retain(std::shared_ptr<Replays>(new Replays{graph_, text}));
  graph_.reset();
  EXPECT_TRUE(contains(text,
                       "CUDAGraph::replay was called by the destructor of an object that another call of the same "
                       "graph released"))
      << text;
}

TEST_F(Retained, ObjectsCanBeAddedToAGraphThatWasCaptured) {
  capture_increment(graph_, x_);
  graph_.replay();
  graph_.retain(std::move(object_));
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return watch_.expired(); }));
}

TEST_F(Retained, ObjectsCanBeAddedToAKeptGraphWhoseExecutableIsThere) {
  CUDAGraph kept(KeepGraph::yes);
  capture_increment(kept, x_);
  kept.replay();
  kept.retain(std::move(object_));
  EXPECT_FALSE(watch_.expired());
  current_stream().synchronize();
  kept.reset();
  EXPECT_TRUE(eventually([&] { return watch_.expired(); }));
}

TEST_F(Retained, ObjectsCanBeAddedByAnyHookOfTheCapture) {
  std::weak_ptr<int> other;
  GraphHooks hooks;
  hooks.captured = [&](GraphHandle) { graph_.retain(std::move(object_)); };
  hooks.instantiated = [&](GraphExecHandle) {
    auto object = std::make_shared<int>(2);
    other = object;
    graph_.retain(std::move(object));
  };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  EXPECT_FALSE(watch_.expired() || other.expired());
  graph_.reset();
  EXPECT_TRUE(watch_.expired() && other.expired());
}

TEST_F(Retained, ObjectsOfACaptureDoNotWaitForReplaysOfTheOneBefore) {
  reprise::test::Gate gate;
  capture(graph_, [&] {
    graph_.retain(std::make_shared<int>(2));
    call_on_host(current_stream(), &reprise::test::Gate::pass, &gate);
    add(x_);
  });
  graph_.replay();
  ASSERT_TRUE(gate.wait_until_reached());
  graph_.reset();
  const SideStream other;
  graph_.capture_begin();  // capture() would wait for the replay
  add(x_);
  graph_.capture_end();
  graph_.retain(std::move(object_));
  graph_.reset();
  EXPECT_TRUE(watch_.expired());
  gate.open();
  stream_.ref().synchronize();
}

TEST_F(Retained, ObjectsOutliveTheGraphWhileAReplayRuns) {
  reprise::test::Gate gate;
  capture(graph_, [&] {
    graph_.retain(std::move(object_));
    call_on_host(current_stream(), &reprise::test::Gate::pass, &gate);
    add(x_);
  });
  graph_.replay();
  ASSERT_TRUE(gate.wait_until_reached());
  graph_.reset();
  EXPECT_FALSE(watch_.expired());
  gate.open();
  current_stream().synchronize();
  EXPECT_TRUE(eventually([&] { return watch_.expired(); }));
}

TEST_F(Retained, ObjectsGoWhenTheCaptureFails) {
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         graph_.retain(std::move(object_));
                         throw std::runtime_error("the body failed");
                       }),
               std::runtime_error);
  EXPECT_TRUE(watch_.expired());
}

TEST_F(Retained, ObjectsMayBeMemoryOfTheGraphsPool) {
  settle_memory();
  const std::uint64_t before = CachingAllocator::of(current_device()).statistics().reserved_bytes;
  capture(graph_, [&] {
    auto scratch = std::make_shared<Buffer<int>>(1 << 20);
    scratch->fill_bytes_async(0);
    add(x_);
    graph_.retain(std::move(scratch));
  });
  graph_.reset();
  settle_memory();
  EXPECT_EQ(CachingAllocator::of(current_device()).statistics().reserved_bytes, before);
}

TEST_F(Retained, ObjectsInMemoryOfThePoolGoBeforeItWhenTheCaptureFails) {
  settle_memory();
  const std::uint64_t before = CachingAllocator::of(current_device()).statistics().reserved_bytes;
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         graph_.retain(std::make_shared<Buffer<int>>(1 << 20));
                         throw std::runtime_error("the body failed");
                       }),
               std::runtime_error);
  EXPECT_EQ(CachingAllocator::of(current_device()).statistics().reserved_bytes, before);
}

TEST_F(Retained, ObjectsNeedAGraphThatIsNotEmptyAndAreNotNull) {
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.retain(object_); }), "CUDAGraph::retain"));
  capture_increment(graph_, x_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.retain(nullptr); }), "null"));
  EXPECT_EQ(object_.use_count(), 1);
}

TEST_F(Retained, ObjectsCanBeReleasedBeforeTheGraphIs) {
  for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
    CUDAGraph graph(keep);
    capture_increment(graph, x_);
    auto object = std::make_shared<int>(1);
    graph.retain(object);
    graph.replay();
    current_stream().synchronize();
    EXPECT_TRUE(graph.release(object));
    EXPECT_TRUE(eventually([&] { return object.use_count() == 1; }));
    EXPECT_FALSE(graph.release(object)) << "it was released already";
    graph.replay();
  }
  EXPECT_EQ(first(x_), 4);
}

TEST_F(Retained, ObjectsThatAreReleasedOutliveTheReplaysThatRun) {
  for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
    reprise::test::Gate gate;
    CUDAGraph graph(keep);
    auto object = std::make_shared<int>(1);
    capture(graph, [&] {
      graph.retain(object);
      call_on_host(current_stream(), &reprise::test::Gate::pass, &gate);
      add(x_);
    });
    graph.replay();
    ASSERT_TRUE(gate.wait_until_reached());
    EXPECT_TRUE(graph.release(object));
    CUDAGraph().reset();  // releases what can be released
    EXPECT_EQ(object.use_count(), 2);
    gate.open();
    current_stream().synchronize();
    EXPECT_TRUE(eventually([&] { return object.use_count() == 1; }));
  }
}

TEST_F(Retained, ObjectsAreReleasedAsOftenAsTheyWereRetained) {
  capture_increment(graph_, x_);
  graph_.retain(object_);
  graph_.retain(object_);
  EXPECT_TRUE(graph_.release(object_));
  EXPECT_EQ(object_.use_count(), 2);
  EXPECT_TRUE(graph_.release(object_));
  EXPECT_EQ(object_.use_count(), 1);
}

TEST_F(Retained, ObjectsThatAreNotRetainedAreLeftAlone) {
  EXPECT_FALSE(graph_.release(object_)) << "nothing is captured";
  capture_increment(graph_, x_);
  graph_.retain(std::make_shared<int>(2));
  EXPECT_FALSE(graph_.release(object_));
  EXPECT_FALSE(graph_.release(nullptr));
  EXPECT_EQ(object_.use_count(), 1);
}

TEST_F(Retained, ObjectsCanBeReleasedInTheCaptureAndWithinHooks) {
  const auto second = std::make_shared<int>(2);
  GraphHooks hooks;
  hooks.after_replay = [&](const StreamRef&, ErrorCode) { EXPECT_TRUE(graph_.release(second)); };
  graph_.add_hooks(hooks);
  capture(graph_, [&] {
    graph_.retain(object_);
    graph_.retain(second);
    EXPECT_TRUE(graph_.release(object_));
    EXPECT_EQ(object_.use_count(), 1);
    add(x_);
  });
  graph_.replay();
  current_stream().synchronize();
  EXPECT_TRUE(eventually([&] { return second.use_count() == 1; }));
}

// The wait of a capture for the device makes what a running replay uses releasable.
class RetainedByARunningReplay : public Retained {
 protected:
  /// A graph that is gone, and whose replay runs, retains this object.
  void retain(std::shared_ptr<void> object) {
    capture(graph_, [&] {
      graph_.retain(std::move(object));
      call_on_host(current_stream(), &reprise::test::Gate::pass, &gate_);
      add(x_);
    });
    graph_.replay();
    ASSERT_TRUE(gate_.wait_until_reached());
    graph_.reset();
  }
  /// Captures; the replay ends while the capture waits for the device.
  void capture_while_it_ends() {
    const std::jthread opener([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      gate_.open();
    });
    const CUDAGraph second = capture([&] { add(x_); });
    EXPECT_TRUE(eventually([&] { return ended_.load(); }));
  }

  reprise::test::Gate gate_;
  std::atomic<bool> ended_ = false;
};

TEST_F(RetainedByARunningReplay, ObjectsMayCaptureWhenTheyAreDestroyed) {
  retain(std::shared_ptr<void>(this, [this](void*) {
    const CUDAGraph captured = capture([&] { add(x_); });
    ended_ = captured.node_count() == 1U;
  }));
  capture_while_it_ends();
}

TEST_F(RetainedByARunningReplay, ObjectsMayWaitForAThreadThatCapturesWhenTheyAreDestroyed) {
  retain(std::shared_ptr<void>(this, [this](void*) {
    std::thread([this] {
      const CUDAGraph captured = capture([&] { add(x_); });
      ended_ = captured.node_count() == 1U;
    }).join();
  }));
  capture_while_it_ends();
}

}  // namespace
}  // namespace reprise::graphs::test
