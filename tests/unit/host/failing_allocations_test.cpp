// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/monitor.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/reprise.h"
#include "tests/support/warnings.h"
#include "tests/unit/host/failing_new.h"

// Each allocation of host memory that an operation makes fails once: nothing ends the process, the operation throws or
// succeeds, and afterwards everything is as usable as before.

namespace reprise::test {
namespace {

struct AddTwo {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 2;
  }
};

struct Setting {
  HostSimulator simulator;
  Device device = simulator.device();
  DeviceGuard device_guard{device};
  Stream stream, side;
  StreamGuard guard{stream};
  Buffer<int> x = Buffer<int>(std::vector<int>(100));

  void add() { launch(x.size(), AddTwo{}, x.data(), x.size()); }
  void level() {
    device.synchronize();
    release_finished_graphs();
    CachingAllocator::of(device).empty_cache();
  }
  // Free memory, and the blocks in use.
  std::array<std::uint64_t, 2> books() {
    level();
    return {device.memory_info().free, CachingAllocator::of(device).statistics().allocations};
  }
};

// Whether the n-th allocation of the operation failed; false: there are fewer.
bool fails(Setting& s, void (*operation)(Setting&), std::size_t n) {
  const FailingNew failing(n);
  try {
    operation(s);
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
  return FailingNew::happened();
}

void walk(void (*operation)(Setting&)) {
  const Warnings warnings;  // of destructors: what they could not release is released later
  Setting s;
  operation(s);
  const auto before = s.books();
  std::size_t n = 1;
  for (; n < 5000 && fails(s, operation, n); ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    ASSERT_FALSE(is_current_stream_capturing());
    s.device.synchronize();  // what was submitted before the failure runs on streams that nothing orders with the next
    ASSERT_NO_THROW(operation(s));
    ASSERT_EQ(s.books(), before) << "something was lost";
  }
  EXPECT_GT(n, 1U) << "the operation allocates nothing";
  s.x.write(std::vector<int>(100, 1));
  s.add();
  EXPECT_EQ(s.x.read(), std::vector<int>(100, 3));
}

// The first graph of a process whose memory the runtime releases, while the n-th allocation fails.
[[noreturn]] void destroy_kept_graph_while_failing(std::size_t n) {
  bool whole = false;
  {
    Setting s;
    CUDAGraph graph(KeepGraph::yes);
    capture(graph, [] { Buffer<char>(100).fill_bytes_async(1); });
    const MempoolId pool = graph.pool();
    {
      const FailingNew failing(n);
      graph.reset();
    }
    s.level();
    whole = CachingAllocator::of(s.device).statistics(pool).reserved_bytes == 0;
  }
  std::_Exit(whole ? 0 : 1);
}

TEST(FailingAllocations, LeaveNoMemoryOfAKeptGraphThatEnds) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (std::size_t n = 1; n <= 4; ++n)
    EXPECT_EXIT(destroy_kept_graph_while_failing(n), ::testing::ExitedWithCode(0), "") << n;
}

TEST(FailingAllocations, OfBuffersAndCopies) {
  walk([](Setting& s) {
    Buffer<char> small(100), medium(std::size_t{3} << 20), large(std::size_t{30} << 20);
    small.fill_bytes_async(1);
    copy_async(medium.data(), small.data(), 100);
    s.add();
    s.stream.synchronize();
    medium.reset();
    const Buffer<char> again(std::size_t{2} << 20);
    CachingAllocator::of(s.device).empty_cache();
  });
}

TEST(FailingAllocations, OfStreamsAndEvents) {
  walk([](Setting& s) {
    const Stream other(s.device, {.blocking = true});
    const Event event(s.device), untimed(s.device, {.timing = false});
    s.add();
    event.record(s.stream);
    other.wait(event);
    launch(other, s.x.size(), AddTwo{}, s.x.data(), s.x.size());
    untimed.record(other);
    s.stream.wait(untimed);
    s.device.default_stream().wait(other);
    static_cast<void>(event.query());
    event.synchronize();
    other.synchronize();
  });
}

TEST(FailingAllocations, OfACaptureOfTheRuntime) {
  walk([](Setting& s) {
    backend::Backend& runtime = s.device.backend();
    if (runtime.stream_begin_capture(s.side.native(), CaptureMode::thread) != ErrorCode::success)
      throw Error("the capture did not begin");
    try {
      launch(s.side, s.x.size(), AddTwo{}, s.x.data(), s.x.size());
      fill_async(s.x.data(), 0, 8, s.side);
    } catch (const Error&) {
    }
    GraphHandle graph = nullptr;
    // For lack of memory it changes nothing, and can be tried again.
    if (runtime.stream_end_capture(s.side.native(), &graph) != ErrorCode::success) {
      ASSERT_EQ(runtime.stream_end_capture(s.side.native(), &graph), ErrorCode::success);
    }
    ASSERT_EQ(runtime.graph_destroy(graph), ErrorCode::success);
  });
}

TEST(FailingAllocations, OfACaptureThatIsReplayed) {
  walk([](Setting& s) {
    s.x.fill_bytes_async(0);
    CUDAGraph graph;
    capture(graph, [&] {
      s.add();
      s.side.wait(current_stream());
      launch(s.side, s.x.size(), AddTwo{}, s.x.data(), s.x.size());
      current_stream().wait(s.side);
      Buffer<int> scratch(100);
      scratch.fill_bytes_async(0);
    });
    graph.replay();
    graph.replay();
    s.stream.synchronize();
    graph.reset();
  });
}

TEST(FailingAllocations, OfACaptureWithAFullReport) {
  walk([](Setting& s) {
    CUDAGraph graph(KeepGraph::yes);
    capture(graph, {.report = ReportDetail::full}, [&] { s.add(); });
    graph.instantiate();
    graph.replay();
    s.stream.synchronize();
  });
}

// All that destructors do, without an allocation that is not theirs.
TEST(FailingAllocations, OfTheReleaseOfGraphs) {
  Setting s;
  const auto before = s.books();
  for (std::size_t n = 1; n < 20; ++n) {
    CUDAGraph graph;
    capture(graph, [&] {
      const Buffer<int> scratch(100);
      s.add();
    });
    graph.replay();
    {
      const FailingNew failing(n);
      { const CUDAGraph ends = std::move(graph); }
      release_finished_graphs();
    }
  }
  EXPECT_EQ(s.books(), before);
}

// A graph with a child, a conditional node and memory of its own, built by hand and launched.
void run_graph_with_graphs(Setting& s) {
  struct Graph {
    backend::Backend& runtime;
    GraphHandle handle = nullptr;
    GraphExecHandle exec = nullptr;
    explicit Graph(backend::Backend& device) : runtime(device) { backend::Checked(runtime).graph_create(&handle); }
    ~Graph() {
      if (exec != nullptr) (void)runtime.graph_exec_destroy(exec);
      (void)runtime.graph_destroy(handle);
    }
    void add(backend::NodeParams params) {
      GraphNodeHandle node = nullptr;
      backend::Checked(runtime).graph_add_node(&node, handle, {}, params);
    }
  };
  backend::Backend& runtime = s.device.backend();
  Graph child(runtime), graph(runtime);
  child.add(backend::MemsetNodeParams{s.x.data(), 0, 4, 10});
  graph.add(backend::ChildGraphNodeParams{child.handle});
  backend::ConditionalHandle condition = 0;
  backend::Checked(runtime).graph_conditional_handle_create(&condition, graph.handle, 1);
  backend::NodeParams params = backend::ConditionalNodeParams{condition, backend::ConditionalType::if_, 2};
  GraphNodeHandle node = nullptr;
  backend::Checked(runtime).graph_add_node(&node, graph.handle, {}, params);
  params = backend::MemoryAllocateNodeParams{4096};
  backend::Checked(runtime).graph_add_node(&node, graph.handle, {}, params);
  const GraphNodeHandle allocation = node;
  params = backend::MemoryFreeNodeParams{std::get<backend::MemoryAllocateNodeParams>(params).address};
  backend::Checked(runtime).graph_add_node(&node, graph.handle, {&allocation, 1}, params);
  backend::Checked(runtime).graph_instantiate(&graph.exec, graph.handle, InstantiateFlags::none, nullptr);
  backend::Checked(runtime).graph_launch(graph.exec, s.stream.native());
  s.stream.synchronize();
}

TEST(FailingAllocations, OfGraphsWithGraphsAndMemory) {
  walk(run_graph_with_graphs);
}

TEST(FailingAllocations, OfTheReleaseQueue) {
  bool released = false;
  auto resources = std::make_unique<memory::ReleaseQueue::Resources>();
  resources->push_back(std::shared_ptr<void>(&released, [](void* flag) { *static_cast<bool*>(flag) = true; }));
  {
    const FailingNew failing(1);
    memory::ReleaseQueue::push(std::move(resources));
    memory::ReleaseQueue::drain();
    EXPECT_FALSE(FailingNew::happened()) << "it needs no memory";
  }
  EXPECT_TRUE(released);
}

TEST(FailingAllocations, OfTheWatchOfCalls) {
  Setting s;
  std::string why;
  {
    const FailingNew failing(1);
    EXPECT_THROW(s.device.backend().monitor().watch_calls(&why), std::bad_alloc);
  }
  s.device.synchronize();
}

}  // namespace
}  // namespace reprise::test
