// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <array>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "captures/registry.h"
#include "graph/listeners/collectives_listener.h"
#include "tests/unit/graph/failure_walk/failure_walk_scenarios.h"

namespace reprise::graphs::test::walk {
namespace {

void capture_increment_of(Stage& s, const GraphOptions& options = {}) {
  capture(s.graph, options, [&] { s.increment(); });
}

}  // namespace

void capture_plainly(Stage& s) {
  capture_increment_of(s);
}

void capture_with_allocations(Stage& s) {
  capture(s.graph, [&] {
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(0);
    const Buffer<int> small(10);
    s.increment();
  });
}

void replay(Stage& s) {
  s.graph.replay();
}

void reset(Stage& s) {
  s.graph.reset();
}

void instantiate(Stage& s) {
  s.graph.instantiate();
}

void prepare_replayed(Stage& s) {
  capture_with_allocations(s);
  s.graph.replay();
  s.stream.synchronize();
}

namespace {

void capture_with_fork(Stage& s) {
  capture(s.graph, [&] {
    const StreamRef here = current_stream();
    s.side.wait(here);
    Buffer<int> scratch(segment_size, s.side);  // of the capture, though on another stream
    scratch.fill_bytes_async(0, s.side);
    scratch.record_stream(here);
    add(s.y, 1, s.side);
    const Event joined(s.device);
    joined.record(s.side);
    joined.wait(here);
    s.increment();
  });
}

void capture_on_two_devices(Stage& s) {
  capture(s.graph, [&] {
    const StreamRef here = current_stream();
    s.far->wait(here);
    {
      const StreamGuard there(*s.far);
      Buffer<int> scratch(segment_size);
      scratch.fill_bytes_async(0);
      add(s.far_y);
    }
    here.wait(*s.far);
    s.increment();
  });
}

void capture_with_workspaces(Stage& s) {
  capture(s.graph, [&] {
    library_workspace("walk", segment_size);
    library_workspace("walk", segment_size / 2);
    s.increment();
  });
}

void capture_with_memory_nodes(Stage& s) {
  capture(s.graph, [&] {
    void* const memory = allocate_async(segment_size);
    fill_async(memory, 1, segment_size);
    free_async(memory);
    s.increment();
  });
}

void capture_batches(Stage& s) {
  capture(s.graph, [&] {
    Buffer<int> scratch(64);
    fill_batch_async(std::array{make_fill(scratch.data(), 7, 32), make_fill(scratch.data() + 32, 8, 32)});
    copy_batch_async(std::array{CopyOp{s.y.data(), scratch.data(), sizeof(int)}});
    s.increment();
  });
}

// Draws on two streams; the numbers are unused.
void capture_with_random_numbers(Stage& s) {
  const Generator generator(s.device);
  capture(s.graph, [&] {
    const StreamRef here = current_stream();
    generator.philox_state(1);
    s.side.wait(here);
    generator.philox_state(1, s.side);
    add(s.y, 1, s.side);
    here.wait(s.side);
    s.increment();
  });
}

// Each of them allocates and frees memory.
void capture_with_hooks(Stage& s) {
  GraphHooks hooks;
  const auto use_memory = [](auto&&...) { const Buffer<int> scratch(segment_size); };
  hooks.captured = use_memory;
  hooks.instantiated = use_memory;
  hooks.before_replay = use_memory;
  hooks.after_replay = use_memory;
  hooks.reset = [] { const Buffer<int> scratch(10); };
  s.graph.add_hooks(std::move(hooks));
  capture(s.graph, [&] {
    s.graph.retain(std::make_shared<int>(1));
    s.increment();
  });
}

// Nested, on two streams, and left by a thread of its own.
void capture_with_annotations(Stage& s) {
  GraphOptions options;
  options.enable_annotations = true;
  options.capture_error_mode = CaptureMode::relaxed;
  capture(s.graph, options, [&] {
    const StreamRef here = current_stream();
    const annotate outer("outer");
    s.side.wait(here);
    std::async(std::launch::async, [&] {
      const DeviceGuard device(s.device);
      const StreamGuard there(s.side);
      const annotate other("other");
      add(s.y, 1, s.side);
    }).get();
    here.wait(s.side);
    const annotate inner({{"name", "inner"}, {"key", "value"}});
    s.increment();
  });
}

void capture_with_progress_marks(Stage& s) {
  capture(s.graph, {.progress_marks = true}, [&] {
    const annotate outer("outer");
    add(s.y);
    const annotate inner("inner");
    s.increment();
  });
}

// Nothing of a graph is left behind by it.
struct WalkCommunicator final : Communicator {
  std::string describe() const override { return "rank 0 of 1"; }
  void abort() noexcept override {}
  bool aborted() const noexcept override { return false; }
};

void capture_with_collectives(Stage& s) {
  capture(s.graph, [&] {
    const captures::Found found = captures::find(current_stream());
    CapturedCollectives::of(*found.capture)
        ->add(std::make_shared<WalkCommunicator>(), std::make_shared<Buffer<int>>(segment_size));
    s.increment();
  });
}

void capture_with_full_report(Stage& s) {
  GraphOptions options;
  options.report = ReportDetail::full;
  capture_increment_of(s, options);
}

void capture_with_copies_of_the_host(Stage& s) {
  static int pageable = 0;
  GraphOptions options;
  options.report = ReportDetail::full;
  capture(s.graph, options, [&] {
    copy_async(s.y.data(), &pageable, sizeof pageable);
    s.increment();
  });
}

void capture_into_pool_of_helper(Stage& s) {
  GraphOptions options;
  options.pool = s.helper.pool();
  capture(s.graph, options, [&] {
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(0);
    s.increment();
  });
}

void prepare_helper(Stage& s) {
  capture(s.helper, [&] {
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(0);
  });
}

// With memory of its own, random numbers, and annotations.
void prepare_child(Stage& s) {
  const Generator generator(s.device);
  GraphOptions options;
  options.enable_annotations = true;
  capture(s.helper, options, [&] {
    const annotate scope("child");
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(0);
    generator.philox_state(1);
  });
}

void capture_with_a_child(Stage& s) {
  capture(s.graph, [&] {
    add_child(s.helper);
    s.increment();
  });
}

// Bodies with memory, random numbers, children, annotations and a loop of their own.
void capture_with_control_flow(Stage& s) {
  const Generator generator(s.device);
  GraphOptions options;
  options.enable_annotations = true;
  options.check_input_liveness = true;
  const auto* const condition = reinterpret_cast<const std::uint32_t*>(s.y.data());  // is zero
  const auto body = [&] {
    const annotate scope("body");
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(0);
    generator.philox_state(1);
    add_child(s.helper);
    add(s.y);
  };
  capture(s.graph, options, [&] {
    if_else(
        condition, [&] { while_(condition, body, {.max_iterations = 2}); }, [&] { multiply(s.x, 1, s.x); });
    while_(condition, body, {.max_iterations = 3});
    s.increment();
  });
}

void prepare_control_flow(Stage& s) {
  prepare_child(s);
  capture_with_control_flow(s);
}

void capture_and_discard(Stage& s) {
  GraphOptions options;
  options.discard_template = true;
  capture_increment_of(s, options);
}

void capture_in_debug_mode(Stage& s) {
  s.graph.enable_debug_mode();  // its template stays
  capture_and_discard(s);
}

void capture_and_upload(Stage& s) {
  GraphOptions options;
  options.instantiate_flags = InstantiateFlags::upload;
  capture_increment_of(s, options);
}

void begin_and_end(Stage& s) try {
  s.graph.capture_begin({}, CaptureMode::thread);
  s.increment();
  s.graph.capture_end();
} catch (...) {
  s.graph.capture_abandon();
  throw;
}

void begin(Stage& s) {
  s.graph.capture_begin();
  s.side.wait(current_stream());
  Buffer<int> scratch(segment_size);
  scratch.fill_bytes_async(0);
  s.increment();
}

void abandon(Stage& s) {
  s.graph.capture_abandon();
}

void leave_scope_by_exception(Stage& s) {
  const graph scope(s.graph);
  s.increment();
  throw BodyFailed();
}

void leave_scope(Stage& s) {
  const graph scope(s.graph);
  s.increment();
}

// No graph, but what a capture's memory goes through once the capture is over.
void free_memory_of_two_streams(Stage& s) {
  Buffer<int> scratch(segment_size);
  add(scratch, 1, s.side);
  scratch.record_stream(s.side);
  s.side.synchronize();
  scratch.reset();
  const Buffer<int> next(10);
}

void prepare_ready(Stage& s) {
  capture_plainly(s);
  s.graph.instantiate();
}

void prepare_ready_with_annotations(Stage& s) {
  capture_with_annotations(s);
  s.graph.instantiate();
}

void upload(Stage& s) {
  s.graph.upload();
}

void time_one_replay(Stage& s) {
  try {
    static_cast<void>(time_replay(s.graph));
  } catch (const Error& error) {
    // Under a sanitizer or a profiler, for one: nothing was launched.
    if (!contains(error.what(), "cannot be timed")) throw;
    s.graph.replay();
  }
}

void replay_beside_a_capture(Stage& s) {
  CUDAGraph other;
  other.capture_begin({}, CaptureMode::thread);
  add(s.y);
  s.graph.replay(s.side);
  other.capture_end();
}

// By another thread: work of the capturing thread elsewhere would be reported as missing in its graph.
void replay_beside_a_reported_capture(Stage& s) {
  GraphOptions options;
  options.capture_error_mode = CaptureMode::thread;
  options.report = ReportDetail::full;
  CUDAGraph other;
  other.capture_begin(options);
  add(s.y);
  std::async(std::launch::async, [&] { s.graph.replay(s.side); }).get();
  other.capture_end();
}

// Gone with the object, whatever the scenario came to.
struct TemporaryFile {
  ~TemporaryFile() {
    std::error_code never_written;
    std::filesystem::remove(path, never_written);
  }
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("reprise_failure_walk_" + std::to_string(::getpid()) + ".dot");
};

void debug_dump(Stage& s) {
  const TemporaryFile file;
  s.graph.debug_dump(file.path);
}

void destroy(Stage& s) {
  s.graph = CUDAGraph();
}

constexpr Scenario of_captures[] = {
    {"capture", made, nullptr, capture_plainly, Left::empty, Left::ready},
    {"capture_with_allocations", made, nullptr, capture_with_allocations, Left::empty, Left::ready},
    {"capture_with_a_fork", made, nullptr, capture_with_fork, Left::empty, Left::ready},
    {"capture_on_two_devices", made, nullptr, capture_on_two_devices, Left::empty, Left::ready, true},
    {"capture_with_workspaces", made, nullptr, capture_with_workspaces, Left::empty, Left::ready},
    {"capture_with_memory_nodes", made, nullptr, capture_with_memory_nodes, Left::empty, Left::ready},
    {"capture_of_batches", made, nullptr, capture_batches, Left::empty, Left::ready},
    {"capture_with_random_numbers", made, nullptr, capture_with_random_numbers, Left::empty, Left::ready},
    {"capture_with_hooks", made, nullptr, capture_with_hooks, Left::empty, Left::ready},
    {"capture_with_annotations", made, nullptr, capture_with_annotations, Left::empty, Left::ready},
    {"capture_with_annotations_that_is_kept", kept, nullptr, capture_with_annotations, Left::empty, Left::captured},
    {"capture_with_progress_marks", made, nullptr, capture_with_progress_marks, Left::empty, Left::ready},
    {"replay_of_progress_marks", made, capture_with_progress_marks, replay, Left::ready, Left::ready},
    {"reset_of_progress_marks", made, capture_with_progress_marks, reset, Left::empty, Left::empty},
    {"capture_with_collectives", made, nullptr, capture_with_collectives, Left::empty, Left::ready},
    {"capture_with_collectives_that_is_kept", kept, nullptr, capture_with_collectives, Left::empty, Left::captured},
    {"replay_with_collectives", made, capture_with_collectives, replay, Left::ready, Left::ready},
    {"capture_with_a_full_report", made, nullptr, capture_with_full_report, Left::empty, Left::ready},
    {"capture_with_copies_of_the_host", made, nullptr, capture_with_copies_of_the_host, Left::empty, Left::ready},
    {"capture_into_a_shared_pool", made, prepare_helper, capture_into_pool_of_helper, Left::empty, Left::ready},
    {"capture_with_a_child", made, prepare_child, capture_with_a_child, Left::empty, Left::ready},
    {"capture_with_control_flow", made, prepare_child, capture_with_control_flow, Left::empty, Left::ready},
    {"replay_of_control_flow", made, prepare_control_flow, replay, Left::ready, Left::ready},
    {"capture_that_discards_the_template", made, nullptr, capture_and_discard, Left::empty, Left::ready},
    {"capture_in_debug_mode", made, nullptr, capture_in_debug_mode, Left::empty, Left::ready},
    {"capture_that_uploads", made, nullptr, capture_and_upload, Left::empty, Left::ready},
    {"capture_that_is_kept", kept, nullptr, capture_with_allocations, Left::empty, Left::captured},
    {"capture_begin_and_capture_end", made, nullptr, begin_and_end, Left::empty, Left::ready},
    {"capture_abandon", made, begin, abandon, Left::empty, Left::empty},
    {"scope", made, nullptr, leave_scope, Left::empty, Left::ready},
    {"scope_left_by_an_exception", made, nullptr, leave_scope_by_exception, Left::empty, Left::empty},
    {"instantiate", kept, capture_plainly, instantiate, Left::captured, Left::ready},
    {"instantiate_again", kept, prepare_ready, instantiate, Left::ready, Left::ready},
    {"instantiate_with_upload", kept, capture_and_upload, instantiate, Left::captured, Left::ready},
    {"upload", made, capture_plainly, upload, Left::ready, Left::ready},
    {"replay", made, capture_plainly, replay, Left::ready, Left::ready},
    {"first_replay_of_a_kept_graph", kept, capture_plainly, replay, Left::captured, Left::ready},
    {"time_replay", made, capture_plainly, time_one_replay, Left::ready, Left::ready},
    {"time_replay_of_random_numbers", kept, capture_with_random_numbers, time_one_replay, Left::captured, Left::ready},
    {"replay_beside_a_capture", made, capture_plainly, replay_beside_a_capture, Left::ready, Left::ready},
    {"replay_of_random_numbers", made, capture_with_random_numbers, replay, Left::ready, Left::ready},
    {"replay_with_hooks", made, capture_with_hooks, replay, Left::ready, Left::ready},
    {"reset_with_hooks", made, capture_with_hooks, reset, Left::empty, Left::empty},
    {"reset_of_random_numbers", made, capture_with_random_numbers, reset, Left::empty, Left::empty},
    {"instantiate_again_with_annotations", kept, prepare_ready_with_annotations, instantiate, Left::ready, Left::ready},
    {"replay_of_annotations", made, capture_with_annotations, replay, Left::ready, Left::ready},
    {"reset_of_annotations", made, capture_with_annotations, reset, Left::empty, Left::empty},
    {"replay_beside_a_capture_with_a_full_report", made, capture_plainly, replay_beside_a_reported_capture, Left::ready,
     Left::ready},
    {"debug_dump", made, capture_plainly, debug_dump, Left::ready, Left::ready},
    {"reset", made, capture_with_allocations, reset, Left::empty, Left::empty},
    {"reset_of_a_replayed_graph", made, prepare_replayed, reset, Left::empty, Left::empty},
    {"reset_of_a_graph_with_workspaces", made, capture_with_workspaces, reset, Left::empty, Left::empty},
    {"reset_of_memory_of_two_streams", made, capture_with_fork, reset, Left::empty, Left::empty},
    {"free_of_memory_of_two_streams", made, nullptr, free_memory_of_two_streams, Left::empty, Left::empty},
    {"destructor", made, capture_with_allocations, destroy, Left::empty, Left::empty},
};

}  // namespace
}  // namespace reprise::graphs::test::walk

namespace reprise::graphs::test {

std::span<const Scenario> scenarios() {
  static const std::vector<Scenario> all = [] {
    std::vector<Scenario> together(std::begin(walk::of_captures), std::end(walk::of_captures));
    for (const std::span<const Scenario> more :
         {walk::scenarios_of_inputs(), walk::scenarios_of_changes(), walk::scenarios_of_values()})
      together.insert(together.end(), more.begin(), more.end());
    return together;
  }();
  return all;
}

}  // namespace reprise::graphs::test
