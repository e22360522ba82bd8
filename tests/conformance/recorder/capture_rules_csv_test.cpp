// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "tests/conformance/contracts/contract.h"
#include "tests/conformance/recorder/by_class.h"
#include "tests/conformance/recorder/capture_rules_csv.h"

// Compares a device with a measurement: data/capture_rules_h200.csv says what each call gave on a GPU while a capture
// was underway, in each mode, from each thread, on each kind of stream. The head of the file describes its columns.

namespace reprise::backend::test {
namespace {

using Row = RuleRow;

CaptureMode mode_named(const std::string& name) {
  if (name == "global") return CaptureMode::global;
  if (name == "thread_local") return CaptureMode::thread;
  EXPECT_EQ(name, "relaxed");
  return CaptureMode::relaxed;
}

const char* name_of(CaptureStatus status) {
  switch (status) {
    case CaptureStatus::none:
      return "none";
    case CaptureStatus::active:
      return "active";
    case CaptureStatus::invalidated:
      return "invalidated";
  }
  return "?";
}

/// What a row needs, made before the capture.
struct State {
  StreamHandle capturing = nullptr, other_nb = nullptr, other_b = nullptr, doomed = nullptr;
  EventHandle in = nullptr, out = nullptr;
  GraphHandle graph = nullptr, doomed_graph = nullptr;
  GraphExecHandle exec = nullptr;
  int* device = nullptr;
  int* pinned = nullptr;
  int pageable[16] = {};
  void* to_free = nullptr;
  CaptureMode mode = CaptureMode::global;
  // Objects made by the call, to be destroyed.
  void* allocated = nullptr;
  void* allocated_pinned = nullptr;
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  GraphHandle made_graph = nullptr;
  GraphExecHandle made_exec = nullptr;
};

class CaptureRules : public Contract {
 protected:
  using Make = std::function<Result(State&)>;

  void SetUp() override {
    device_ = new_memory<int>(64);
    pinned_ = new_pinned<int>(64);
  }

  /// The reason to leave a row out of the comparison; empty if there is none.
  std::string not_applicable(const Row& row) const;

  std::map<std::string, Make> calls();
  void add_memory_calls(std::map<std::string, Make>& calls);
  void add_stream_calls(std::map<std::string, Make>& calls);
  void add_event_calls(std::map<std::string, Make>& calls);
  void add_work_calls(std::map<std::string, Make>& calls);
  void add_capture_calls(std::map<std::string, Make>& calls);
  void add_graph_calls(std::map<std::string, Make>& calls);
  void add_calls_by_class(std::map<std::string, Make>& calls);

  State prepare(const Row& row);
  /// The differences between the row and what this device does; empty if there is none.
  std::string compare(const Row& row, const Make& make);
  void clean_up(State& state);

  int* device_ = nullptr;
  int* pinned_ = nullptr;
};
REPRISE_ON_EVERY_DEVICE(CaptureRules);

void CaptureRules::add_memory_calls(std::map<std::string, Make>& calls) {
  calls["cudaMalloc"] = [this](State& s) { return backend().memory_allocate(&s.allocated, 64); };
  calls["cudaFree(ptr)"] = [this](State& s) {
    Result result = backend().memory_free(s.to_free);
    if (result == ErrorCode::success) s.to_free = nullptr;
    return result;
  };
  calls["cudaMallocHost"] = [this](State& s) { return backend().pinned_allocate(&s.allocated_pinned, 64); };
  calls["cudaMallocAsync s"] = [this](State& s) {
    void* pointer = nullptr;  // the graph's own
    return backend().memory_allocate_async(&pointer, 64, s.capturing);
  };
  calls["cudaMemPoolTrimTo"] = [this](State&) { return backend().memory_pool_trim(0); };
  calls["cudaMemGetInfo"] = [this](State&) {
    MemoryInfo info;
    return backend().memory_info(&info);
  };
  calls["cudaPointerGetAttributes"] = [this](State& s) {
    PointerInfo info;
    return backend().pointer_info(s.device, &info);
  };
  calls["cudaFuncSetAttribute"] = [this](State&) {
    return backend().function_set_max_shared(function<CountThreads>(), 64 * 1024);
  };
}

void CaptureRules::add_stream_calls(std::map<std::string, Make>& calls) {
  const auto create = [this](StreamFlags flags) {
    return [this, flags](State& s) { return backend().stream_create(&s.stream, flags, 0); };
  };
  calls["cudaStreamCreate nb"] = create(StreamFlags::non_blocking);
  calls["cudaStreamCreate b"] = create(StreamFlags::blocking);
  calls["cudaStreamDestroy other"] = [this](State& s) {
    Result result = backend().stream_destroy(s.doomed);
    if (result == ErrorCode::success) s.doomed = nullptr;
    return result;
  };
  calls["cudaStreamSynchronize s"] = [this](State& s) { return backend().stream_synchronize(s.capturing); };
  calls["cudaStreamSynchronize other nb"] = [this](State& s) { return backend().stream_synchronize(s.other_nb); };
  calls["cudaStreamSynchronize other b"] = [this](State& s) { return backend().stream_synchronize(s.other_b); };
  calls["cudaStreamSynchronize legacy"] = [this](State&) { return backend().stream_synchronize(nullptr); };
  calls["cudaStreamQuery s"] = [this](State& s) { return backend().stream_query(s.capturing); };
  calls["cudaStreamQuery other nb"] = [this](State& s) { return backend().stream_query(s.other_nb); };
  calls["cudaDeviceSynchronize"] = [this](State&) { return backend().device_synchronize(); };
}

void CaptureRules::add_event_calls(std::map<std::string, Make>& calls) {
  calls["cudaEventCreate"] = [this](State& s) { return backend().event_create(&s.event, EventFlags::timing); };
  calls["cudaEventDestroy out"] = [this](State& s) {
    Result result = backend().event_destroy(s.out);
    if (result == ErrorCode::success) s.out = nullptr;
    return result;
  };
  calls["cudaEventQuery out"] = [this](State& s) { return backend().event_query(s.out); };
  calls["cudaEventSynchronize out"] = [this](State& s) { return backend().event_synchronize(s.out); };
  calls["cudaEventQuery captured"] = [this](State& s) { return backend().event_query(s.in); };
  calls["cudaEventSynchronize captured"] = [this](State& s) { return backend().event_synchronize(s.in); };
  const auto record = [this](StreamHandle State::*stream, EventUseFlags use) {
    return [this, stream, use](State& s) {
      EXPECT_OK(backend().event_create(&s.event, EventFlags::timing));
      return backend().event_record(s.event, stream == nullptr ? nullptr : s.*stream, use);
    };
  };
  calls["cudaEventRecord s"] = record(&State::capturing, EventUseFlags::ordering);
  calls["cudaEventRecord s external"] = record(&State::capturing, EventUseFlags::external);
  calls["cudaEventRecord legacy"] = record(nullptr, EventUseFlags::ordering);
  calls["cudaStreamWaitEvent s<-out"] = [this](State& s) {
    return backend().stream_wait_event(s.capturing, s.out, EventUseFlags::ordering);
  };
  calls["cudaStreamWaitEvent s<-out external"] = [this](State& s) {
    return backend().stream_wait_event(s.capturing, s.out, EventUseFlags::external);
  };
  calls["cudaStreamWaitEvent legacy<-in"] = [this](State& s) {
    return backend().stream_wait_event(nullptr, s.in, EventUseFlags::ordering);
  };
  calls["cudaStreamWaitEvent other nb<-in"] = [this](State& s) {
    return backend().stream_wait_event(s.other_nb, s.in, EventUseFlags::ordering);
  };
}

void CaptureRules::add_work_calls(std::map<std::string, Make>& calls) {
  calls["cudaMemcpy D2H"] = [this](State& s) { return backend().copy(s.pageable, s.device, 64); };
  calls["cudaMemcpy H2D"] = [this](State& s) { return backend().copy(s.device, s.pageable, 64); };
  calls["cudaMemset"] = [this](State& s) { return backend().set({s.device, 0, 1, 64}); };
  // Host memory must outlive the work: the pageable copy becomes a node that never runs.
  calls["cudaMemcpyAsync pageable D2H s"] = [this](State& s) {
    return backend().copy_async(s.pageable, s.device, 64, s.capturing);
  };
  calls["cudaMemcpyAsync pinned s"] = [this](State& s) {
    return backend().copy_async(s.device, s.pinned, 64, s.capturing);
  };
  calls["cudaMemcpyAsync legacy"] = [this](State& s) { return backend().copy_async(s.device, s.pinned, 64, nullptr); };
  calls["cudaMemsetAsync s"] = [this](State& s) { return backend().set_async({s.device, 0, 1, 64}, s.capturing); };
  calls["kernel s"] = [this](State& s) { return launch(s.capturing, Store{}, s.device, 1); };
  calls["kernel legacy"] = [this](State& s) { return launch(nullptr, Store{}, s.device, 1); };
  calls["kernel other nb"] = [this](State& s) { return launch(s.other_nb, Store{}, s.device, 1); };
  calls["kernel bad config s"] = [this](State& s) {
    LaunchConfig config;
    config.block = Dim3(2000);
    return launch(s.capturing, config, Store{}, s.device, 1);
  };
  const HostNodeParams nothing{[](void*) {}, nullptr};
  calls["cudaLaunchHostFunc s"] = [this, nothing](State& s) {
    return backend().launch_host_function(nothing, s.capturing);
  };
  calls["cudaLaunchHostFunc legacy"] = [this, nothing](State&) {
    return backend().launch_host_function(nothing, nullptr);
  };
}

void CaptureRules::add_capture_calls(std::map<std::string, Make>& calls) {
  const auto is_capturing = [this](StreamHandle stream) {
    CaptureStatus status = CaptureStatus::none;
    return backend().stream_is_capturing(stream, &status);
  };
  calls["cudaStreamIsCapturing s"] = [=](State& s) { return is_capturing(s.capturing); };
  calls["cudaStreamIsCapturing legacy"] = [=](State&) { return is_capturing(nullptr); };
  calls["cudaStreamBeginCapture s"] = [this](State& s) { return backend().stream_begin_capture(s.capturing, s.mode); };
  calls["begin+end other nb"] = [this](State& s) {
    Result begun = backend().stream_begin_capture(s.other_nb, s.mode);
    if (begun.failed()) return begun;
    return backend().stream_end_capture(s.other_nb, &s.made_graph);
  };
  calls["cudaStreamEndCapture s"] = [this](State& s) {
    return backend().stream_end_capture(s.capturing, &s.made_graph);
  };
  calls["cudaStreamEndCapture joined"] = [this](State& s) {
    EXPECT_OK(backend().stream_wait_event(s.other_nb, s.in, EventUseFlags::ordering));
    return backend().stream_end_capture(s.other_nb, &s.made_graph);
  };
}

void CaptureRules::add_graph_calls(std::map<std::string, Make>& calls) {
  calls["cudaGraphCreate"] = [this](State& s) { return backend().graph_create(&s.made_graph); };
  calls["cudaGraphDestroy"] = [this](State& s) {
    Result result = backend().graph_destroy(s.doomed_graph);
    if (result == ErrorCode::success) s.doomed_graph = nullptr;
    return result;
  };
  calls["cudaGraphInstantiate"] = [this](State& s) {
    return backend().graph_instantiate(&s.made_exec, s.graph, InstantiateFlags::none, nullptr);
  };
  calls["cudaGraphLaunch s"] = [this](State& s) { return backend().graph_launch(s.exec, s.capturing); };
  calls["cudaGraphLaunch other"] = [this](State& s) { return backend().graph_launch(s.exec, s.other_nb); };
}

/// Calls that the interface does not have: a host device knows what it would give.
const std::vector<std::string>& calls_by_class() {
  static const std::vector<std::string> names = {
      "cudaMemcpyBatchAsync s", "cudaStreamAddCallback s", "cudaGetDeviceProperties",      "cudaSetDevice",
      "cudaGetDevice",          "cudaDeviceGraphMemTrim",  "cudaCtxResetPersistingL2Cache"};
  return names;
}

void CaptureRules::add_calls_by_class(std::map<std::string, Make>& calls) {
  for (const std::string& name : calls_by_class())
    calls[name] = [this, cuda_name = name.substr(0, name.find(' '))](State& s) {
      return obey_rules(backend(), cuda_name, s.capturing, nullptr);
    };
}

std::string CaptureRules::not_applicable(const Row& row) const {
  const auto& by_class = calls_by_class();
  if (std::find(by_class.begin(), by_class.end(), row.call) == by_class.end()) return {};
  if (!has(Capability::calls_by_class)) return why_lacking(GetParam(), Capability::calls_by_class);
  if (row.result_name == "cudaErrorDeviceUninitialized")
    return "the thread had no current context; a thread of the host device needs none";
  return {};
}

std::map<std::string, CaptureRules::Make> CaptureRules::calls() {
  std::map<std::string, Make> all;
  add_memory_calls(all);
  add_stream_calls(all);
  add_event_calls(all);
  add_work_calls(all);
  add_capture_calls(all);
  add_graph_calls(all);
  add_calls_by_class(all);
  return all;
}

State CaptureRules::prepare(const Row& row) {
  State s;
  s.mode = mode_named(row.mode);
  s.device = device_;
  s.pinned = pinned_;
  const auto blocking = StreamFlags::blocking, non_blocking = StreamFlags::non_blocking;
  EXPECT_OK(backend().stream_create(&s.capturing, row.capturing_stream == "blocking" ? blocking : non_blocking, 0));
  EXPECT_OK(backend().stream_create(&s.other_nb, non_blocking, 0));
  EXPECT_OK(backend().stream_create(&s.other_b, blocking, 0));
  EXPECT_OK(backend().stream_create(&s.doomed, non_blocking, 0));
  EXPECT_OK(backend().event_create(&s.in, EventFlags::timing));
  EXPECT_OK(backend().event_create(&s.out, EventFlags::timing));
  EXPECT_OK(backend().event_record(s.out, s.other_nb, EventUseFlags::ordering));
  EXPECT_OK(backend().memory_allocate(&s.to_free, 64));
  EXPECT_OK(backend().graph_create(&s.graph));
  add_kernel(s.graph, {}, Store{}, s.device, 1);
  EXPECT_OK(backend().graph_create(&s.doomed_graph));
  EXPECT_OK(backend().graph_instantiate(&s.exec, s.graph, InstantiateFlags::none, nullptr));
  EXPECT_OK(backend().device_synchronize());
  return s;
}

std::string CaptureRules::compare(const Row& row, const Make& make) {
  State s = prepare(row);
  EXPECT_OK(backend().stream_begin_capture(s.capturing, s.mode));
  EXPECT_OK(launch(s.capturing, Store{}, s.device, 2));
  EXPECT_OK(backend().event_record(s.in, s.capturing, EventUseFlags::ordering));

  Result result = ErrorCode::unknown;
  if (row.thread == "other") {
    on_another_thread([&] { result = make(s); });
  } else if (row.thread == "same_exchanged_to_relaxed") {
    const CaptureModeScope relaxed(backend(), CaptureMode::relaxed);
    result = make(s);
  } else {
    EXPECT_EQ(row.thread, "same");
    result = make(s);
  }
  const CaptureStatus after = status_of(s.capturing);
  GraphHandle graph = nullptr;
  const Result end = backend().stream_end_capture(s.capturing, &graph);
  if (graph != nullptr) {
    EXPECT_OK(backend().graph_destroy(graph));
  }
  clean_up(s);

  if (static_cast<int>(result.code()) == row.result && name_of(after) == row.after &&
      static_cast<int>(end.code()) == row.end)
    return {};
  std::ostringstream difference;
  difference << row.where() << ": measured " << row.result << " " << row.after << " " << row.end << ", here "
             << static_cast<int>(result.code()) << " " << name_of(after) << " " << static_cast<int>(end.code()) << "\n";
  return difference.str();
}

void CaptureRules::clean_up(State& s) {
  EXPECT_OK(backend().device_synchronize());
  for (GraphExecHandle exec : {s.exec, s.made_exec})
    if (exec != nullptr) {
      EXPECT_OK(backend().graph_exec_destroy(exec));
    }
  for (GraphHandle graph : {s.graph, s.doomed_graph, s.made_graph})
    if (graph != nullptr) {
      EXPECT_OK(backend().graph_destroy(graph));
    }
  for (EventHandle event : {s.in, s.out, s.event})
    if (event != nullptr) {
      EXPECT_OK(backend().event_destroy(event));
    }
  for (StreamHandle stream : {s.capturing, s.other_nb, s.other_b, s.doomed, s.stream})
    if (stream != nullptr) {
      EXPECT_OK(backend().stream_destroy(stream));
    }
  for (void* pointer : {s.to_free, s.allocated}) EXPECT_OK(backend().memory_free(pointer));
  EXPECT_OK(backend().pinned_free(s.allocated_pinned));
}

TEST_P(CaptureRules, AreThoseThatWereMeasuredOnAGpu) {
  const std::vector<Row> rows = measured_rules();
  ASSERT_EQ(rows.size(), 1116U) << "62 calls, 3 modes, 3 threads, 2 kinds of streams";
  const std::map<std::string, Make> known = calls();
  std::map<std::string, int> skipped;
  std::map<std::string, int> seen;
  std::string differences;
  int compared = 0, left_out = 0, different = 0;
  for (const Row& row : rows) {
    ++seen[row.call];
    if (const std::string why = not_applicable(row); !why.empty()) {
      ++skipped[row.call + ": " + why];
      ++left_out;
      continue;
    }
    const auto call = known.find(row.call);
    if (call == known.end()) {
      ADD_FAILURE() << "this test does not know how to make the call of " << row.where();
      continue;
    }
    ++compared;
    const std::string difference = compare(row, call->second);
    different += difference.empty() ? 0 : 1;
    differences += difference;
  }
  std::cout << compared << " rows compared, " << left_out << " not applicable:\n";
  for (const auto& [why, count] : skipped) std::cout << "  " << count << " x " << why << "\n";
  for (const auto& [call, make] : known) EXPECT_GT(seen[call], 0) << call << " is not in the file";
  EXPECT_EQ(different, 0) << different << " of " << compared << " rows differ:\n" << differences;
}

TEST_P(CaptureRules, HaveTheNamesOfTheirCodes) {
  std::map<int, std::string> names;
  for (const Row& row : measured_rules()) names[row.result] = row.result_name;
  names.erase(201);  // an invalid context: of a call that has no counterpart here
  for (const auto& [code, name] : names) EXPECT_EQ(result_name(static_cast<ErrorCode>(code)), name);
}

}  // namespace
}  // namespace reprise::backend::test
