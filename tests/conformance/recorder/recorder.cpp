// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/recorder/recorder.h"

#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/conformance/kernels.h"

namespace reprise::backend::test {
namespace {

/// Making and destroying a state must not fail: the next row would not be in a state of its own.
void require(const Result& result, const char* what) {
  if (result.failed())
    throw std::runtime_error(std::string("the recorder: ") + what + " gave " + result_name(result.code()));
}

/// A state, made before the capture and released after it.
class Scene {
 public:
  Scene(Backend& backend, const RecordedCall& call, StreamKind kind) : x(backend), call_(call) {
    try {
      make_memory();
      make_streams(kind);
      make_events();
      make_graphs();
      load_kernel();
      if (backend.memory_allocate_async(&x.doomed_async, 4096, x.nb) != ErrorCode::success) x.doomed_async = nullptr;
      if (call.prepare) call.prepare(x);
      require(backend.device_synchronize(), "device_synchronize");
    } catch (...) {
      abandon();
      throw;
    }
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  /// Releases everything; nothing of it may be in a capture.
  void destroy() {
    release();
    if (!failed_.empty()) throw std::runtime_error("the recorder: " + failed_);
  }

  /// The same after a failure: the next row needs a device without captures.
  void abandon() {
    for (StreamHandle* stream : {&x.s, &x.nb, &x.b}) {
      GraphHandle graph = nullptr;
      if (*stream != nullptr) (void)x.backend.stream_end_capture(*stream, &graph);
      if (graph != nullptr) (void)x.backend.graph_destroy(graph);
    }
    release();
  }

  State x;

 private:
  void release() {
    Backend& backend = x.backend;
    note(backend.device_synchronize(), "device_synchronize");
    if (call_.release) call_.release(x);
    if (x.doomed_async != nullptr) (void)backend.memory_free_async(x.doomed_async, x.nb);
    for (GraphExecHandle exec : {x.exec, x.doomed_exec})
      if (exec != nullptr) note(backend.graph_exec_destroy(exec), "graph_exec_destroy");
    for (GraphHandle graph : {x.graph, x.doomed_graph, x.clone})
      if (graph != nullptr) note(backend.graph_destroy(graph), "graph_destroy");
    for (UserObjectHandle object : {x.object, x.held})
      if (object != nullptr) note(backend.user_object_release(object, 1), "user_object_release");
    for (EventHandle event : {x.in, x.out, x.never, x.over, x.doomed_event})
      if (event != nullptr) note(backend.event_destroy(event), "event_destroy");
    for (StreamHandle stream : {x.s, x.nb, x.b, x.doomed_stream})
      if (stream != nullptr) note(backend.stream_destroy(stream), "stream_destroy");
    for (void* memory : {static_cast<void*>(x.device), x.doomed_memory})
      if (memory != nullptr) note(backend.memory_free(memory), "memory_free");
    for (void* memory : {static_cast<void*>(x.pinned), x.doomed_pinned})
      if (memory != nullptr) note(backend.pinned_free(memory), "pinned_free");
  }
  void note(const Result& result, const char* what) {
    if (result.failed() && failed_.empty()) failed_ = std::string(what) + " gave " + result_name(result.code());
  }
  void make_memory() {
    x.pageable = pageable_;
    void* memory = nullptr;
    require(x.backend.memory_allocate(&memory, 4096), "memory_allocate");
    x.device = static_cast<unsigned char*>(memory);
    require(x.backend.pinned_allocate(&memory, 4096), "pinned_allocate");
    x.pinned = static_cast<unsigned char*>(memory);
    require(x.backend.memory_allocate(&x.doomed_memory, 4096), "memory_allocate");
    require(x.backend.pinned_allocate(&x.doomed_pinned, 4096), "pinned_allocate");
  }
  void make_streams(StreamKind kind) {
    Backend& backend = x.backend;
    if (kind == StreamKind::green)
      require(create_green_stream(backend, &x.s), "a stream of a green context");
    else
      require(backend.stream_create(
                  &x.s, kind == StreamKind::blocking ? StreamFlags::blocking : StreamFlags::non_blocking, 0),
              "stream_create");
    require(backend.stream_create(&x.nb, StreamFlags::non_blocking, 0), "stream_create");
    require(backend.stream_create(&x.b, StreamFlags::blocking, 0), "stream_create");
    require(backend.stream_create(&x.doomed_stream, StreamFlags::non_blocking, 0), "stream_create");
  }
  void make_events() {
    Backend& backend = x.backend;
    for (EventHandle* event : {&x.in, &x.out, &x.never, &x.over, &x.doomed_event})
      require(backend.event_create(event, EventFlags::timing), "event_create");
    require(backend.event_record(x.out, x.nb, EventUseFlags::ordering), "event_record");
    GraphHandle graph = nullptr;
    require(backend.stream_begin_capture(x.nb, CaptureMode::relaxed), "stream_begin_capture");
    require(backend.event_record(x.over, x.nb, EventUseFlags::ordering), "event_record");
    require(backend.stream_end_capture(x.nb, &graph), "stream_end_capture");
    require(backend.graph_destroy(graph), "graph_destroy");
  }
  void make_graphs() {
    Backend& backend = x.backend;
    require(backend.graph_create(&x.graph), "graph_create");
    require(backend.graph_create(&x.doomed_graph), "graph_create");
    NodeParams params = MemsetNodeParams{x.device, 1, 1, 16};
    require(backend.graph_add_node(&x.first, x.graph, {}, params), "graph_add_node");
    require(backend.graph_add_node(&x.second, x.graph, {&x.first, 1}, params), "graph_add_node");
    for (UserObjectHandle* object : {&x.object, &x.held})
      require(backend.user_object_create(object, nullptr, &do_nothing, 1), "user_object_create");
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

  const RecordedCall& call_;
  unsigned char pageable_[64] = {};
  std::string failed_;  ///< what could not be released first
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
  return static_cast<int>(result.code());
}

void begin_capture(const State& x, StreamHandle stream, CaptureMode mode) {
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

/// What a caller does that is not simply the thread that captures.
struct Role {
  bool is_other_thread = false;
  bool is_other_device = false;
  std::optional<CaptureMode> captures = {};   ///< a stream of its own, in this mode
  std::optional<CaptureMode> exchanges = {};  ///< its own mode for this one, around the call
};

Role role_of(const Situation& situation) {
  switch (situation.caller) {
    case Caller::same:
      return {};
    case Caller::other:
      return {.is_other_thread = true};
    case Caller::other_capturing:
      return {.is_other_thread = true, .captures = situation.mode};
    case Caller::other_device:
    case Caller::other_device_on_ours:
      return {.is_other_thread = true, .is_other_device = true};
    case Caller::same_with_global:
      return {.captures = CaptureMode::global};
    case Caller::same_with_thread_local:
      return {.captures = CaptureMode::thread};
    case Caller::same_with_relaxed:
      return {.captures = CaptureMode::relaxed};
    case Caller::other_with_global:
      return {.is_other_thread = true, .captures = CaptureMode::global};
    case Caller::other_with_thread_local:
      return {.is_other_thread = true, .captures = CaptureMode::thread};
    case Caller::other_with_relaxed:
      return {.is_other_thread = true, .captures = CaptureMode::relaxed};
    case Caller::same_exchanged_to_thread_local:
      return {.exchanges = CaptureMode::thread};
    case Caller::same_exchanged_to_relaxed:
      return {.exchanges = CaptureMode::relaxed};
    case Caller::other_exchanged_to_thread_local:
      return {.is_other_thread = true, .exchanges = CaptureMode::thread};
    case Caller::other_exchanged_to_relaxed:
      return {.is_other_thread = true, .exchanges = CaptureMode::relaxed};
  }
  return {};
}

/// The call alone, on the caller's thread.
void make_call(Row& row, const RecordedCall& call, State& used) {
  (void)last_error(used.backend);
  row.result = static_cast<int>(call.make(used).code());
  row.last = last_error(used.backend);
}

/// Makes the call on the caller's thread, with what its role requires.
/// \param own what the caller's own capture, or the other device, has; else null.
void play(const Role& role, Row& row, const RecordedCall& call, State& x, State* own) {
  if (role.captures) begin_capture(*own, own->s, *role.captures);
  CaptureMode mode = role.exchanges.value_or(CaptureMode::global);
  if (role.exchanges) require(x.backend.thread_exchange_capture_mode(&mode), "thread_exchange_capture_mode");
  if (row.situation.caller == Caller::other_device_on_ours) {
    State borrowed(own->backend);
    static_cast<Handles&>(borrowed) = x;
    make_call(row, call, borrowed);
    static_cast<Handles&>(x) = borrowed;
  } else {
    make_call(row, call, role.is_other_device ? *own : x);
  }
  if (role.exchanges) require(x.backend.thread_exchange_capture_mode(&mode), "thread_exchange_capture_mode");
  if (!role.captures) return;
  row.caller_after = status_of(x.backend, own->s);
  row.caller_end = end_capture(x.backend, own->s);
}

/// With everything made.
void fill(Row& row, const RecordedCall& call, State& x, State* own) {
  begin_capture(x, x.s, row.situation.mode);
  require(x.backend.event_record(x.in, x.s, EventUseFlags::ordering), "event_record");
  if (row.situation.invalidated && x.backend.stream_query(x.s) != ErrorCode::stream_capture_unsupported)
    throw std::runtime_error("the recorder: a query of the capturing stream did not break the capture");
  const Role role = role_of(row.situation);
  if (role.is_other_thread)
    on_a_thread([&] { play(role, row, call, x, own); });
  else
    play(role, row, call, x, own);
  row.after = status_of(x.backend, x.s);
  row.end = end_capture(x.backend, x.s);
}

}  // namespace

Row record(Backend& backend, Backend* other, const RecordedCall& call, const Situation& situation) {
  Row row;
  row.call = call.name;
  row.situation = situation;
  Scene scene(backend, call, situation.stream);
  std::optional<Scene> own;
  try {
    const Role role = role_of(situation);
    if (role.is_other_device || role.captures)
      own.emplace(role.is_other_device ? *other : backend, call, StreamKind::non_blocking);
    fill(row, call, scene.x, own ? &own->x : nullptr);
  } catch (...) {
    if (own) own->abandon();
    scene.abandon();
    throw;
  }
  try {
    if (own) own->destroy();
  } catch (...) {
    scene.abandon();
    throw;
  }
  scene.destroy();
  return row;
}

namespace {
std::vector<Situation> situations(const std::vector<Caller>& callers, const std::vector<StreamKind>& streams) {
  std::vector<Situation> all;
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed})
    for (const Caller caller : callers)
      for (const StreamKind stream : streams)
        for (const bool invalidated : {false, true}) all.push_back({mode, caller, stream, invalidated});
  return all;
}
}  // namespace

std::vector<Part> parts_of_the_interface(bool two_devices) {
  const std::vector<StreamKind> streams = {StreamKind::non_blocking, StreamKind::blocking};
  std::vector<Part> parts = {
      {&recorded_calls(), situations({Caller::same, Caller::other, Caller::other_capturing}, streams)},
      {&representative_calls(),
       situations({Caller::same_with_global, Caller::same_with_thread_local, Caller::same_with_relaxed,
                   Caller::other_with_global, Caller::other_with_thread_local, Caller::other_with_relaxed,
                   Caller::same_exchanged_to_thread_local, Caller::same_exchanged_to_relaxed,
                   Caller::other_exchanged_to_thread_local, Caller::other_exchanged_to_relaxed},
                  streams)}};
  if (!two_devices) return parts;
  parts.push_back({&recorded_calls(), situations({Caller::other_device}, streams)});
  parts.push_back({&calls_on_handles(), situations({Caller::other_device_on_ours}, streams)});
  return parts;
}

std::vector<Part> parts_beside_it(bool two_devices) {
  std::vector<Caller> callers = {Caller::same, Caller::other, Caller::other_capturing};
  if (two_devices) callers.push_back(Caller::other_device);
  return {{&further_calls(), situations(callers, {StreamKind::non_blocking, StreamKind::blocking})},
          {&representative_calls(), situations({Caller::same, Caller::other}, {StreamKind::green})}};
}

std::vector<Part> parts_on_nodes() {
  return {{&node_calls(), situations({Caller::same, Caller::other, Caller::other_capturing},
                                     {StreamKind::non_blocking, StreamKind::blocking})}};
}

std::vector<Row> record(Backend& backend, Backend* other, const RecordedCall& call,
                        const std::vector<Situation>& situations) {
  std::vector<Row> rows;
  rows.reserve(situations.size());
  for (const Situation& situation : situations) rows.push_back(record(backend, other, call, situation));
  return rows;
}

}  // namespace reprise::backend::test
