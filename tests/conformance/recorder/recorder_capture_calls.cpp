// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <utility>

#include "tests/conformance/recorder/recorder_calls.h"

// The calls of the recorder: events, captures, forks and joins.

namespace reprise::backend::test {
namespace {

/// Returns the first failure of several calls, made one after the other: the braces keep their order.
Result first_failure(std::initializer_list<Result> results) {
  for (const Result& result : results)
    if (result.failed()) return result.code();
  return ErrorCode::success;
}

/// Ends a capture and drops its graph.
Result end(State& x, StreamHandle stream) {
  GraphHandle made = nullptr;
  return then(x.backend.stream_end_capture(stream, &made), x, [&] { (void)x.backend.graph_destroy(made); });
}

/// Makes `nb` wait for the event in the capture: it joins.
Result fork(State& x) {
  return x.backend.stream_wait_event(x.nb, x.in, EventUseFlags::ordering);
}
Result work(State& x, StreamHandle stream) {
  return x.backend.set_async(memset_of(x, 8), stream);
}
/// Makes `s` wait for the work submitted to the stream.
Result join(State& x, StreamHandle stream) {
  Result recorded = x.backend.event_record(x.never, stream, EventUseFlags::ordering);
  if (recorded.failed()) return recorded;
  return x.backend.stream_wait_event(x.s, x.never, EventUseFlags::ordering);
}
/// Makes `b` join the capture by way of `nb`.
Result fork_again(State& x) {
  Result recorded = x.backend.event_record(x.never, x.nb, EventUseFlags::ordering);
  if (recorded.failed()) return recorded;
  return x.backend.stream_wait_event(x.b, x.never, EventUseFlags::ordering);
}

}  // namespace

void on_streams(Calls& calls, const std::string& name, const OnStream& make) {
  calls.push_back({name + " s", [make](State& x) { return make(x, x.s); }});
  calls.push_back({name + " nb", [make](State& x) { return make(x, x.nb); }});
  calls.push_back({name + " b", [make](State& x) { return make(x, x.b); }});
  calls.push_back({name + " legacy", [make](State& x) { return make(x, nullptr); }});
}

void add_event_calls(Calls& calls) {
  calls.push_back({"event_create", [](State& x) {
                     EventHandle made = nullptr;
                     return then(x.backend.event_create(&made, EventFlags::timing), x,
                                 [&] { (void)x.backend.event_destroy(made); });
                   }});
  calls.push_back({"event_destroy", [](State& x) {
                     return then(x.backend.event_destroy(x.doomed_event), x, [&] { x.doomed_event = nullptr; });
                   }});
  calls.push_back({"event_destroy over",
                   [](State& x) { return then(x.backend.event_destroy(x.over), x, [&] { x.over = nullptr; }); }});
  const std::pair<const char*, EventHandle State::*> events[] = {
      {"in", &State::in}, {"out", &State::out}, {"never", &State::never}, {"over", &State::over}};
  for (const auto& [name, event] : events) {
    EventHandle State::*const which = event;
    calls.push_back(
        {std::string("event_query ") + name, [which](State& x) { return x.backend.event_query(x.*which); }});
    calls.push_back({std::string("event_synchronize ") + name,
                     [which](State& x) { return x.backend.event_synchronize(x.*which); }});
    calls.push_back({std::string("event_elapsed_ms ") + name, [which](State& x) {
                       float ms = 0;
                       return x.backend.event_elapsed_ms(&ms, x.*which, x.*which);
                     }});
  }
  for (const EventUseFlags use : {EventUseFlags::ordering, EventUseFlags::external})
    on_streams(calls, std::string("stream_wait_event over") + (use == EventUseFlags::external ? " external" : ""),
               [use](State& x, StreamHandle stream) { return x.backend.stream_wait_event(stream, x.over, use); });
  on_streams(calls, "event_record over", [](State& x, StreamHandle stream) {
    return x.backend.event_record(x.over, stream, EventUseFlags::ordering);
  });
  calls.push_back({"record over again on nb and synchronize", [](State& x) {
                     return first_failure({x.backend.event_record(x.over, x.nb, EventUseFlags::ordering),
                                           x.backend.event_synchronize(x.over)});
                   }});
}

void add_capture_calls(Calls& calls) {
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::relaxed})
    on_streams(calls, mode == CaptureMode::global ? "begin and end a capture on" : "begin and end a relaxed one on",
               [mode](State& x, StreamHandle stream) {
                 Result begun = x.backend.stream_begin_capture(stream, mode);
                 if (begun != ErrorCode::success) return begun;
                 GraphHandle made = nullptr;
                 return then(x.backend.stream_end_capture(stream, &made), x,
                             [&] { (void)x.backend.graph_destroy(made); });
               });
  calls.push_back({"begin and end a capture to a graph on nb", [](State& x) {
                     Result begun = x.backend.stream_begin_capture_to_graph(x.nb, x.graph, {}, CaptureMode::relaxed);
                     if (begun != ErrorCode::success) return begun;
                     GraphHandle made = nullptr;
                     return x.backend.stream_end_capture(x.nb, &made);
                   }});
  on_streams(calls, "stream_end_capture", [](State& x, StreamHandle stream) { return end(x, stream); });
  on_streams(calls, "stream_is_capturing", [](State& x, StreamHandle stream) {
    CaptureStatus status = CaptureStatus::none;
    return x.backend.stream_is_capturing(stream, &status);
  });
  on_streams(calls, "stream_capture_info", [](State& x, StreamHandle stream) {
    CaptureInfo info;
    return x.backend.stream_capture_info(stream, &info);
  });
  on_streams(calls, "stream_update_capture_dependencies", [](State& x, StreamHandle stream) {
    return x.backend.stream_update_capture_dependencies(stream, {}, UpdateDependencies::add);
  });
  calls.push_back({"thread_exchange_capture_mode", [](State& x) {
                     CaptureMode mode = CaptureMode::relaxed;
                     Result result = x.backend.thread_exchange_capture_mode(&mode);
                     (void)x.backend.thread_exchange_capture_mode(&mode);
                     return result;
                   }});
}

/// Each is several calls: its result is that of the first one that fails. Those after it are made nevertheless.
void add_fork_calls(Calls& calls) {
  calls.push_back({"end s with a fork that is not joined", [](State& x) {
                     return first_failure({fork(x), work(x, x.nb), end(x, x.s)});
                   }});
  calls.push_back({"end s with a fork that is joined", [](State& x) {
                     return first_failure({fork(x), work(x, x.nb), join(x, x.nb), end(x, x.s)});
                   }});
  calls.push_back({"end s with a fork that got no work", [](State& x) {
                     return first_failure({fork(x), end(x, x.s)});
                   }});
  calls.push_back({"end s with a fork that got work after its join", [](State& x) {
                     return first_failure({fork(x), work(x, x.nb), join(x, x.nb), work(x, x.nb), end(x, x.s)});
                   }});
  calls.push_back(
      {"end s with a fork of a fork that is not joined", [](State& x) {
         return first_failure({fork(x), work(x, x.nb), fork_again(x), work(x, x.b), join(x, x.nb), end(x, x.s)});
       }});
  calls.push_back(
      {"end s with a fork of a fork that is joined", [](State& x) {
         return first_failure({fork(x), work(x, x.nb), fork_again(x), work(x, x.b), join(x, x.b), end(x, x.s)});
       }});
  calls.push_back({"work on a fork", [](State& x) { return first_failure({fork(x), work(x, x.nb)}); }});
  calls.push_back({"work on a fork after its join", [](State& x) {
                     return first_failure({fork(x), work(x, x.nb), join(x, x.nb), work(x, x.nb)});
                   }});
  calls.push_back({"synchronize a fork", [](State& x) {
                     return first_failure({fork(x), x.backend.stream_synchronize(x.nb)});
                   }});
  calls.push_back({"begin a capture on a fork", [](State& x) {
                     Result forked = fork(x);
                     Result begun = x.backend.stream_begin_capture(x.nb, CaptureMode::relaxed);
                     if (begun == ErrorCode::success) (void)end(x, x.nb);
                     return first_failure({std::move(forked), std::move(begun)});
                   }});
  calls.push_back({"launch a graph on a fork", [](State& x) {
                     return first_failure({fork(x), x.backend.graph_launch(x.exec, x.nb)});
                   }});
  calls.push_back({"end a fork", [](State& x) { return first_failure({fork(x), end(x, x.nb)}); }});
  calls.push_back({"destroy a fork that is not joined and end s", [](State& x) {
                     Result forked = first_failure({fork(x), work(x, x.nb)});
                     Result destroyed = x.backend.stream_destroy(x.nb);
                     if (destroyed == ErrorCode::success) x.nb = nullptr;
                     return first_failure({std::move(forked), std::move(destroyed), end(x, x.s)});
                   }});
}

}  // namespace reprise::backend::test
