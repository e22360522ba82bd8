// SPDX-License-Identifier: Apache-2.0
#include "tests/support/faulty_backend.h"
#include "tests/unit/inspect/liveness_fixture.h"

// With Liveness::all, memory that came from the driver counts, too.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Each test has a device on which calls are counted.
class LivenessOfDriverMemory : public ::testing::Test {
 protected:
  LivenessOfDriverMemory() { memory_ = allocate(); }
  ~LivenessOfDriverMemory() override {
    runtime_.heal();
    free();
  }

  static FaultyBackend& runtime() {
    static auto& runtime = *new FaultyBackend(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  int* allocate() {
    void* memory = nullptr;
    backend::Checked(runtime_).memory_allocate(&memory, n * sizeof(int));
    return static_cast<int*>(memory);
  }
  void free() {
    if (memory_ != nullptr) backend::Checked(runtime_).memory_free(memory_);
    memory_ = nullptr;
  }
  void work() { launch(n, Add{}, memory_, 1, n); }
  void capture_work(const GraphOptions& options = with_check(Liveness::all)) {
    capture(graph_, options, [&] { work(); });
  }

  FaultyBackend& runtime_ = runtime();
  const DeviceGuard guard_{Device(runtime_)};
  const SideStream stream_;
  int* memory_ = nullptr;
  CUDAGraph graph_;
};

TEST_F(LivenessOfDriverMemory, ReplaysWhileItIsThere) {
  capture_work();
  graph_.replay();
  graph_.replay();
  const std::vector<GraphInput> inputs = graph_.inputs();
  ASSERT_THAT(inputs, SizeIs(1));
  EXPECT_EQ(inputs[0].address, memory_);
  EXPECT_EQ(inputs[0].bytes, n * sizeof(int));
  EXPECT_THAT(inputs[0].nodes, ElementsAre("kernel reprise::graphs::test::Add (node 0)"));
  stream_.ref().synchronize();
}

TEST_F(LivenessOfDriverMemory, IsNoInputUnlessAllIsToBeChecked) {
  capture_work(with_check());
  EXPECT_THAT(graph_.inputs(), IsEmpty());
}

TEST_F(LivenessOfDriverMemory, RefusesToReplayOnceItWasFreed) {
  capture_work();
  const void* const address = memory_;
  free();
  for (int i = 0; i < 2; ++i) {
    const std::vector<DeadInput> dead = dead_inputs(graph_);
    ASSERT_THAT(dead, SizeIs(1));
    EXPECT_EQ(dead[0].address, address);
    EXPECT_FALSE(dead[0].given_out_again);
  }
}

TEST_F(LivenessOfDriverMemory, RefusesToReplayWhenOtherMemoryHasTheAddress) {
  capture_work();
  const void* const address = memory_;
  free();
  memory_ = allocate();
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].given_out_again, memory_ == address);  // for certain on the host device
  if (default_device().type() == DeviceType::host) {
    EXPECT_EQ(memory_, address);
  }
}

TEST_F(LivenessOfDriverMemory, PinnedSourcesCountAndPageableOnesDoNot) {
  void* pinned = nullptr;
  ASSERT_EQ(runtime_.pinned_allocate(&pinned, 64), ErrorCode::success);
  int pageable = 7;
  Buffer<int> x = zeros(n);
  capture(graph_, with_check(Liveness::all), [&] {
    copy_async(x.data(), pinned, sizeof(int));
    copy_async(x.data() + 1, &pageable, sizeof(int));
  });
  EXPECT_THAT(graph_.inputs(), SizeIs(2));
  graph_.replay();
  stream_.ref().synchronize();
  ASSERT_EQ(runtime_.pinned_free(pinned), ErrorCode::success);
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(addresses(dead), ElementsAre(pinned));
  EXPECT_THAT(dead[0].nodes, ElementsAre("memcpy source (node 0)"));
}

TEST_F(LivenessOfDriverMemory, CostsOneQueryForEachAllocationAndReplay) {
  int* const second = allocate();
  Buffer<int> x = zeros(n);
  capture(graph_, with_check(Liveness::all), [&] {
    work();
    work();
    launch(1, Add{}, memory_ + 5, 1, std::size_t{1});
    launch(n, Add{}, second, 1, n);
    add(x);
  });
  graph_.replay();
  runtime_.forget_calls();
  for (int i = 0; i < 3; ++i) graph_.replay();
  EXPECT_EQ(runtime_.calls(Call::pointer_info), 6);
  EXPECT_EQ(runtime_.calls(), 9);
  stream_.ref().synchronize();
  EXPECT_EQ(runtime_.memory_free(second), ErrorCode::success);
}

TEST_F(LivenessOfDriverMemory, MemoryOfTheAllocatorIsNeverTakenForTheDrivers) {
  Buffer<int> x = zeros(n), cached = zeros(n);
  int* const free_again = cached.data();
  cached.reset();  // x keeps the segment
  capture(graph_, with_check(Liveness::all), [&] {
    Buffer<int> own(n);
    multiply(x, 2, own);
    launch(1, Add{}, free_again, 1, std::size_t{1});
  });
  runtime_.forget_calls();
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(free_again));
  EXPECT_EQ(runtime_.calls(Call::pointer_info), 0);
  graph_.nodes()[1].set_arg(0, x.data());
  graph_.replay();
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(x.data()));
  stream_.ref().synchronize();
}

TEST_F(LivenessOfDriverMemory, AQueryThatFailsIsAnErrorAndTheGraphStays) {
  capture_work();
  runtime_.fail(Call::pointer_info, ErrorCode::launch_failure);
  EXPECT_TRUE(contains(text_of<BackendError>([&] { graph_.replay(); }), "cuPointerGetAttributes"));
  graph_.replay();
  stream_.ref().synchronize();
}

TEST_F(LivenessOfDriverMemory, CannotBeRetainedAndIsChecked) {
  Buffer<int> x = zeros(n);
  capture(graph_, with_retain(Liveness::all), [&] {
    work();
    add(x);
  });
  x.reset();
  graph_.replay();
  for (const GraphInput& input : graph_.inputs()) EXPECT_EQ(input.retained, input.address != memory_);
  stream_.ref().synchronize();
  const void* const address = memory_;
  free();
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
}

}  // namespace
}  // namespace reprise::graphs::test
