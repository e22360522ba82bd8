// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backend/host/host_backend.h"
#include "support/room.h"

// Streams, events, and waits between them.

namespace reprise::backend::host {
namespace {

/// An operation that does nothing: a point in the work of a stream.
class PointOperation final : public Operation {
 public:
  explicit PointOperation(Executor& executor) : executor_(executor) {}
  Task* run() override { return executor_.complete(*this); }

 private:
  Executor& executor_;
};

}  // namespace

Result HostBackend::stream_create(StreamHandle* handle, StreamFlags flags, int priority) {
  return enter(Call::stream_create, [&](Lock&) -> Result {
    if (flags != StreamFlags::blocking && flags != StreamFlags::non_blocking)
      return fail(ErrorCode::invalid_value, "there are no such stream flags");
    HostStream& stream = runtime_.make_stream(device_, flags == StreamFlags::blocking, std::clamp(priority, -5, 0));
    *handle = reinterpret_cast<StreamHandle>(&stream);
    return ErrorCode::success;
  });
}

Result HostBackend::stream_destroy(StreamHandle handle) {
  return enter(Call::stream_destroy, [&](Lock&) -> Result {
    HostStream* const stream = find(handle);
    if (stream == nullptr || stream->legacy || stream->thread != 0) return bad_handle("stream");
    runtime_.destroy(*stream);
    return ErrorCode::success;
  });
}

Result HostBackend::stream_flags(StreamHandle handle, StreamFlags* flags) {
  return enter_stream(Call::stream_flags, handle, [&](Lock&, HostStream& stream) {
    *flags = stream.blocking ? StreamFlags::blocking : StreamFlags::non_blocking;
    return ErrorCode::success;
  });
}

Result HostBackend::stream_priority(StreamHandle handle, int* priority) {
  return enter_stream(Call::stream_priority, handle, [&](Lock&, HostStream& stream) {
    *priority = stream.priority;
    return ErrorCode::success;
  });
}

Result HostBackend::stream_id(StreamHandle handle, std::uint64_t* id) {
  return enter_stream(Call::stream_id, handle, [&](Lock&, HostStream& stream) {
    *id = stream.id;
    return ErrorCode::success;
  });
}

Result HostBackend::stream_synchronize(StreamHandle handle) {
  return enter_stream(Call::stream_synchronize, handle,
                      [&](Lock& lock, HostStream& stream) { return wait(lock, stream.device->frontier(stream)); });
}

Result HostBackend::stream_query(StreamHandle handle) {
  return enter_stream(Call::stream_query, handle,
                      [&](Lock& lock, HostStream& stream) { return query(lock, stream.device->frontier(stream)); });
}

Result HostBackend::check_use(EventUseFlags use) {
  return use == EventUseFlags::ordering || use == EventUseFlags::external
             ? ErrorCode::success
             : fail(ErrorCode::invalid_value, "there is no such flag for a use of an event");
}

Result HostBackend::stream_wait_event(StreamHandle stream_handle, EventHandle event_handle, EventUseFlags use) {
  return enter(Call::stream_wait_event, [&](Lock&) -> Result {
    HostStream* const stream = find(stream_handle);
    HostEvent* const event = runtime_.find(event_handle);
    if (stream == nullptr) return bad_handle("stream");
    if (event == nullptr) return bad_handle("event");
    if (Result bad = check_use(use); bad.failed()) return bad;
    const bool external = use == EventUseFlags::external;
    if (Result rule = check(Call::stream_wait_event, stream, event, external); rule.failed()) return rule;
    if (stream->capture != nullptr && external) {
      submit(*stream, NodeType::event_wait, EventWaitNodeParams{event_handle});
    } else if (event->capture != nullptr) {
      support::make_room(stream->capture_dependencies, event->captured_dependencies.size());
      if (stream->capture == nullptr) join_capture(*stream, event->capture);
      add_dependencies(*stream, event->captured_dependencies);
    } else if (!stream->device->negligible(event->point)) {
      const OperationRef further[] = {event->point};
      stream->device->enqueue(*stream, OperationRef(new PointOperation(runtime_.executor)), further);
    }
    return ErrorCode::success;
  });
}

Result HostBackend::event_create(EventHandle* handle, EventFlags flags) {
  return enter(Call::event_create, [&](Lock&) -> Result {
    if (flags != EventFlags::timing && flags != EventFlags::disable_timing)
      return fail(ErrorCode::invalid_value, "there are no such event flags");
    auto event = std::make_unique<HostEvent>();
    event->device = &device_;
    event->timing = flags == EventFlags::timing;
    HostEvent* const raw = event.get();
    runtime_.events.emplace(raw, std::move(event));
    *handle = reinterpret_cast<EventHandle>(raw);
    return ErrorCode::success;
  });
}

Result HostBackend::event_destroy(EventHandle handle) {
  return enter(Call::event_destroy,
               [&](Lock&) { return runtime_.events.erase(handle) == 1 ? ErrorCode::success : bad_handle("event"); });
}

Result HostBackend::event_record(EventHandle event_handle, StreamHandle stream_handle, EventUseFlags use) {
  return enter(Call::event_record, [&](Lock&) -> Result {
    HostStream* const stream = find(stream_handle);
    HostEvent* const event = runtime_.find(event_handle);
    if (stream == nullptr) return bad_handle("stream");
    if (event == nullptr) return bad_handle("event");
    if (Result bad = check_use(use); bad.failed()) return bad;
    const bool external = use == EventUseFlags::external;
    if (Result rule = check(Call::event_record, stream, nullptr, external); rule.failed()) return rule;
    if (event->device != stream->device)
      return refuse_work(Call::event_record, *stream,
                         fail(ErrorCode::invalid_handle, "event and stream are of two devices"));
    if (stream->capture != nullptr && external) {
      submit(*stream, NodeType::event_record, EventRecordNodeParams{event_handle});
      return ErrorCode::success;
    }
    if (stream->capture != nullptr) {
      event->captured_dependencies = stream->capture_dependencies;
      event->capture = stream->capture;
      return ErrorCode::success;
    }
    OperationRef point = stream->tail;
    if (event->timing || stream->legacy || stream->blocking) {
      point = OperationRef(new PointOperation(runtime_.executor));
      if (event->timing) point->set_timed();
      stream->device->enqueue(*stream, point);
    }
    event->set_recorded(std::move(point));
    return ErrorCode::success;
  });
}

Result HostBackend::event_query(EventHandle handle) {
  return enter(Call::event_query, [&](Lock& lock) -> Result {
    HostEvent* const event = runtime_.find(handle);
    if (event == nullptr) return bad_handle("event");
    if (Result rule = check(Call::event_query, nullptr, event); rule.failed()) return rule;
    return query(lock, std::array{event->point});
  });
}

Result HostBackend::event_synchronize(EventHandle handle) {
  return enter(Call::event_synchronize, [&](Lock& lock) -> Result {
    HostEvent* const event = runtime_.find(handle);
    if (event == nullptr) return bad_handle("event");
    if (Result rule = check(Call::event_synchronize, nullptr, event); rule.failed()) return rule;
    return wait(lock, std::array{event->point});
  });
}

Result HostBackend::event_elapsed_ms(float* milliseconds, EventHandle start_handle, EventHandle end_handle) {
  return enter(Call::event_elapsed_ms, [&](Lock& lock) -> Result {
    make_progress(lock);
    const HostEvent* const start = runtime_.find(start_handle);
    const HostEvent* const end = runtime_.find(end_handle);
    if (start == nullptr || end == nullptr) return bad_handle("event");
    for (const HostEvent* event : {start, end}) {
      if (event->capture != nullptr)
        return fail(
            event->capture->state == HostCapture::State::active ? ErrorCode::captured_event : ErrorCode::invalid_value,
            "an event was last recorded in a capture, where no time passes");
      if (!event->timing || !event->recorded)
        return fail(ErrorCode::invalid_handle, "an event was never recorded, or was made without timing");
      if (!event->point.done()) return fail(ErrorCode::not_ready, "an event is not complete yet");
      host_waited({&event->point, 1});
    }
    const auto elapsed = end->point->completed_at() - start->point->completed_at();
    *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host
