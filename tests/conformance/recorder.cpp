// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/recorder.h"

#include <array>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "tests/conformance/kernels.h"

namespace reprise::backend::test {
namespace {

constexpr const char* mode_names[] = {"global", "thread_local", "relaxed"};
constexpr const char* caller_names[] = {"same", "other", "other_capturing", "other_device"};
constexpr const char* stream_names[] = {"blocking", "non_blocking"};

/// Making and destroying a state must not fail: the next row would not be in a state of its own.
void require(Result result, const char* what) {
  if (result != Result::success)
    throw std::runtime_error(std::string("the recorder: ") + what + " gave " + result_name(result));
}

void nothing(void*) {}

/// A state, made before the capture and given back after it.
class Scene {
 public:
  Scene(Backend& backend, StreamFlags flags) : x(backend) {
    make_memory();
    require(backend.stream_create(&x.s, flags, 0), "stream_create");
    require(backend.stream_create(&x.nb, StreamFlags::non_blocking, 0), "stream_create");
    require(backend.stream_create(&x.b, StreamFlags::blocking, 0), "stream_create");
    require(backend.stream_create(&x.doomed_stream, StreamFlags::non_blocking, 0), "stream_create");
    for (EventHandle* event : {&x.in, &x.out, &x.never, &x.doomed_event})
      require(backend.event_create(event, EventFlags::timing), "event_create");
    require(backend.event_record(x.out, x.nb, EventUseFlags::ordering), "event_record");
    make_graphs();
    load_kernel();
    if (backend.memory_allocate_async(&x.doomed_async, 4096, x.nb) != Result::success) x.doomed_async = nullptr;
    require(backend.device_synchronize(), "device_synchronize");
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  /// Gives everything back; nothing of it may be in a capture.
  void destroy() {
    Backend& backend = x.backend;
    require(backend.device_synchronize(), "device_synchronize");
    if (x.doomed_async != nullptr) (void)backend.memory_free_async(x.doomed_async, x.nb);
    for (GraphExecHandle exec : {x.exec, x.doomed_exec})
      if (exec != nullptr) require(backend.graph_exec_destroy(exec), "graph_exec_destroy");
    for (GraphHandle graph : {x.graph, x.doomed_graph})
      if (graph != nullptr) require(backend.graph_destroy(graph), "graph_destroy");
    for (UserObjectHandle object : {x.object, x.held})
      if (object != nullptr) require(backend.user_object_release(object, 1), "user_object_release");
    for (EventHandle event : {x.in, x.out, x.never, x.doomed_event})
      if (event != nullptr) require(backend.event_destroy(event), "event_destroy");
    for (StreamHandle stream : {x.s, x.nb, x.b, x.doomed_stream})
      if (stream != nullptr) require(backend.stream_destroy(stream), "stream_destroy");
    for (void* memory : {static_cast<void*>(x.device), x.doomed_memory})
      if (memory != nullptr) require(backend.memory_free(memory), "memory_free");
    for (void* memory : {static_cast<void*>(x.pinned), x.doomed_pinned})
      if (memory != nullptr) require(backend.pinned_free(memory), "pinned_free");
  }

  State x;

 private:
  void make_memory() {
    void* memory = nullptr;
    require(x.backend.memory_allocate(&memory, 4096), "memory_allocate");
    x.device = static_cast<unsigned char*>(memory);
    require(x.backend.pinned_allocate(&memory, 4096), "pinned_allocate");
    x.pinned = static_cast<unsigned char*>(memory);
    require(x.backend.memory_allocate(&x.doomed_memory, 4096), "memory_allocate");
    require(x.backend.pinned_allocate(&x.doomed_pinned, 4096), "pinned_allocate");
  }
  void make_graphs() {
    Backend& backend = x.backend;
    require(backend.graph_create(&x.graph), "graph_create");
    require(backend.graph_create(&x.doomed_graph), "graph_create");
    NodeParams params = MemsetNodeParams{x.device, 1, 1, 16};
    require(backend.graph_add_node(&x.first, x.graph, {}, params), "graph_add_node");
    require(backend.graph_add_node(&x.second, x.graph, {&x.first, 1}, params), "graph_add_node");
    for (UserObjectHandle* object : {&x.object, &x.held})
      require(backend.user_object_create(object, nullptr, &nothing, 1), "user_object_create");
    require(backend.graph_retain_user_object(x.graph, x.held, 1, RetainFlags::add), "graph_retain_user_object");
    for (GraphExecHandle* exec : {&x.exec, &x.doomed_exec})
      require(backend.graph_instantiate(exec, x.graph, InstantiateFlags::none, nullptr), "graph_instantiate");
  }
  /// So that no call of the record is the one that loads it.
  void load_kernel() {
    FunctionHandle function = nullptr;
    require(x.backend.kernel_function(kernel_record<Store>(), &function), "kernel_function");
    int* out = reinterpret_cast<int*>(x.device);
    int value = 0;
    void* params[] = {&out, &value};
    require(x.backend.launch_kernel({function, {}, params}, x.nb), "launch_kernel");
  }
};

int status_of(Backend& backend, StreamHandle stream) {
  CaptureStatus status = CaptureStatus::none;
  require(backend.stream_is_capturing(stream, &status), "stream_is_capturing");
  return static_cast<int>(status);
}

int end_capture(Backend& backend, StreamHandle stream) {
  GraphHandle graph = nullptr;
  const Result result = backend.stream_end_capture(stream, &graph);
  if (graph != nullptr) require(backend.graph_destroy(graph), "graph_destroy");
  return static_cast<int>(result);
}

void begin_capture(const State& x, StreamHandle stream, CaptureErrorMode mode) {
  require(x.backend.stream_begin_capture(stream, mode), "stream_begin_capture");
  require(x.backend.set_async({x.device + 1024, 1, 1, 16}, stream), "set_async");
}

template <class F>
void on_a_thread(F&& body) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

void make_call(Row& row, const RecordedCall& call, Scene& scene, Scene& others) {
  Backend& backend = scene.x.backend;
  const auto make = [&](State& x) { row.result = static_cast<int>(call.make(x)); };
  switch (row.situation.caller) {
    case Caller::same:
      make(scene.x);
      return;
    case Caller::other:
      on_a_thread([&] { make(scene.x); });
      return;
    case Caller::other_capturing:
      on_a_thread([&] {
        begin_capture(others.x, others.x.s, row.situation.mode);
        make(scene.x);
        row.caller_after = status_of(backend, others.x.s);
        row.caller_end = end_capture(backend, others.x.s);
      });
      return;
    case Caller::other_device:
      on_a_thread([&] { make(others.x); });
      return;
  }
}

}  // namespace

Row record(Backend& backend, Backend* other, const RecordedCall& call, const Situation& situation) {
  Row row;
  row.call = call.name;
  row.situation = situation;
  Scene scene(backend, situation.stream);
  // What a caller of its own works with: its own stream that captures, or its device.
  Scene others(situation.caller == Caller::other_device ? *other : backend, StreamFlags::non_blocking);
  State& x = scene.x;
  begin_capture(x, x.s, situation.mode);
  require(backend.event_record(x.in, x.s, EventUseFlags::ordering), "event_record");
  if (situation.invalidated && backend.stream_query(x.s) != Result::stream_capture_unsupported)
    throw std::runtime_error("the recorder: a query of the capturing stream did not break the capture");
  make_call(row, call, scene, others);
  row.after = status_of(backend, x.s);
  row.end = end_capture(backend, x.s);
  others.destroy();
  scene.destroy();
  return row;
}

std::vector<Row> record(Backend& backend, Backend* other, const RecordedCall& call) {
  std::vector<Row> rows;
  for (const CaptureErrorMode mode :
       {CaptureErrorMode::global, CaptureErrorMode::thread_local_, CaptureErrorMode::relaxed})
    for (const Caller caller : {Caller::same, Caller::other, Caller::other_capturing, Caller::other_device})
      for (const StreamFlags stream : {StreamFlags::non_blocking, StreamFlags::blocking})
        for (const bool invalidated : {false, true})
          if (caller != Caller::other_device || other != nullptr)
            rows.push_back(record(backend, other, call, {mode, caller, stream, invalidated}));
  return rows;
}

std::string Row::where() const {
  return call + ", " + mode_names[static_cast<int>(situation.mode)] + ", " +
         caller_names[static_cast<int>(situation.caller)] + " thread, " +
         stream_names[static_cast<int>(situation.stream)] + " stream, " +
         (situation.invalidated ? "invalidated" : "active");
}

namespace {
auto all_of(const Row& row) {
  const Situation& s = row.situation;
  return std::tuple(row.call, s.mode, s.caller, s.stream, s.invalidated, row.result, row.after, row.end,
                    row.caller_after, row.caller_end);
}

template <std::size_t n>
int index_in(const char* const (&names)[n], const std::string& name) {
  for (std::size_t i = 0; i < n; ++i)
    if (name == names[i]) return static_cast<int>(i);
  throw std::runtime_error("the recorder: no such word: " + name);
}
}  // namespace

bool operator==(const Row& a, const Row& b) {
  return all_of(a) == all_of(b);
}

std::string csv_header() {
  return "call,mode,thread,capturing_stream,phase,result,after,end,caller_after,caller_end";
}

std::ostream& operator<<(std::ostream& out, const Row& row) {
  const Situation& s = row.situation;
  return out << row.call << ',' << mode_names[static_cast<int>(s.mode)] << ','
             << caller_names[static_cast<int>(s.caller)] << ',' << stream_names[static_cast<int>(s.stream)] << ','
             << (s.invalidated ? "invalidated" : "active") << ',' << row.result << ',' << row.after << ',' << row.end
             << ',' << row.caller_after << ',' << row.caller_end;
}

Row parse_row(const std::string& line) {
  std::istringstream fields(line);
  std::array<std::string, 10> field;
  std::size_t count = 0;
  for (std::string one; std::getline(fields, one, ','); ++count)
    if (count < field.size()) field[count] = one;
  if (count != field.size()) throw std::runtime_error("the recorder: not a row of 10 fields: " + line);
  Row row;
  row.call = field[0];
  row.situation = {static_cast<CaptureErrorMode>(index_in(mode_names, field[1])),
                   static_cast<Caller>(index_in(caller_names, field[2])),
                   static_cast<StreamFlags>(index_in(stream_names, field[3])), field[4] == "invalidated"};
  row.result = std::stoi(field[5]);
  row.after = std::stoi(field[6]);
  row.end = std::stoi(field[7]);
  row.caller_after = std::stoi(field[8]);
  row.caller_end = std::stoi(field[9]);
  return row;
}

}  // namespace reprise::backend::test
