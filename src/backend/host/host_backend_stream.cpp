// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backend/host/host_backend.h"

// Streams, events, and waits between them.

namespace reprise::backend::host {
namespace {

/// An operation that does nothing: a point in the work of a stream.
class PointOperation final : public Operation {
 public:
  Task* run() override { return Executor::instance().complete(*this); }
};

template <class Container, class Value>
void remove(Container& container, const Value& value) {
  container.erase(std::remove(container.begin(), container.end(), value), container.end());
}

}  // namespace

Result HostBackend::stream_create(StreamHandle* handle, StreamFlags flags, int priority) {
  return enter(Call::stream_create, [&](Lock&) {
    if (flags != StreamFlags::blocking && flags != StreamFlags::non_blocking)
      return fail(Result::invalid_value, "there are no such stream flags");
    auto stream = std::make_unique<HostStream>();
    stream->device = &device_;
    stream->id = next_id();
    stream->blocking = flags == StreamFlags::blocking;
    stream->priority = std::clamp(priority, -5, 0);
    HostStream* const raw = stream.get();
    device_.streams().push_back(raw);
    runtime_.streams.emplace(raw, std::move(stream));
    *handle = reinterpret_cast<StreamHandle>(raw);
    return Result::success;
  });
}

Result HostBackend::stream_destroy(StreamHandle handle) {
  return enter(Call::stream_destroy, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr || stream->legacy) return bad_handle("stream");
    if (const std::shared_ptr<Capture> capture = stream->capture) {
      if (capture->origin == stream) {
        // This capture can no longer be ended.
        drop_capture(runtime_, *capture);
      } else {
        capture->left_behind.push_back(stream->capture_dependencies);
        remove(capture->streams, stream);
      }
    }
    stream->device->adopt(stream->tail);
    remove(stream->device->streams(), stream);
    runtime_.streams.erase(stream);
    return Result::success;
  });
}

Result HostBackend::stream_flags(StreamHandle handle, StreamFlags* flags) {
  return enter(Call::stream_flags, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_flags, &device_, stream});
    if (rule != Result::success) return rule;
    *flags = stream->blocking ? StreamFlags::blocking : StreamFlags::non_blocking;
    return Result::success;
  });
}

Result HostBackend::stream_priority(StreamHandle handle, int* priority) {
  return enter(Call::stream_priority, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_priority, &device_, stream});
    if (rule != Result::success) return rule;
    *priority = stream->priority;
    return Result::success;
  });
}

Result HostBackend::stream_id(StreamHandle handle, std::uint64_t* id) {
  return enter(Call::stream_id, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_id, &device_, stream});
    if (rule != Result::success) return rule;
    *id = stream->id;
    return Result::success;
  });
}

Result HostBackend::stream_synchronize(StreamHandle handle) {
  return enter(Call::stream_synchronize, [&](Lock& lock) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_synchronize, &device_, stream});
    return rule != Result::success ? rule : wait(lock, stream->device->frontier(*stream));
  });
}

Result HostBackend::stream_query(StreamHandle handle) {
  return enter(Call::stream_query, [&](Lock& lock) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::stream_query, &device_, stream});
    return rule != Result::success ? rule : query(lock, stream->device->frontier(*stream));
  });
}

Result HostBackend::check_use(EventUseFlags use) {
  return use == EventUseFlags::ordering || use == EventUseFlags::external
             ? Result::success
             : fail(Result::invalid_value, "there is no such flag for a use of an event");
}

Result HostBackend::stream_wait_event(StreamHandle stream_handle, EventHandle event_handle, EventUseFlags use) {
  return enter(Call::stream_wait_event, [&](Lock&) {
    HostStream* const stream = find(stream_handle);
    HostEvent* const event = runtime_.find(event_handle);
    if (stream == nullptr) return bad_handle("stream");
    if (event == nullptr) return bad_handle("event");
    if (const Result bad = check_use(use); bad != Result::success) return bad;
    const bool external = use == EventUseFlags::external;
    const Result rule = check_capture_rules(runtime_, {Call::stream_wait_event, &device_, stream, event, external});
    return rule != Result::success ? rule : join(*stream, *event, external);
  });
}

Result HostBackend::join(HostStream& stream, HostEvent& event, bool external) {
  if (stream.capture != nullptr && external) {
    submit(stream, NodeType::event_wait, EventWaitNodeParams{reinterpret_cast<EventHandle>(&event)});
    return Result::success;
  }
  if (event.capture != nullptr) {
    if (stream.capture == nullptr) join_capture(stream, event.capture);
    for (HostNode* node : event.captured_dependencies)
      if (std::find(stream.capture_dependencies.begin(), stream.capture_dependencies.end(), node) ==
          stream.capture_dependencies.end())
        stream.capture_dependencies.push_back(node);
    return Result::success;
  }
  if (!stream.device->negligible(event.point)) {
    const OperationRef further[] = {event.point};
    stream.device->enqueue(stream, OperationRef(new PointOperation), further);
  }
  return Result::success;
}

Result HostBackend::event_create(EventHandle* handle, EventFlags flags) {
  return enter(Call::event_create, [&](Lock&) {
    if (flags != EventFlags::timing && flags != EventFlags::disable_timing)
      return fail(Result::invalid_value, "there are no such event flags");
    auto event = std::make_unique<HostEvent>();
    event->device = &device_;
    event->timing = flags == EventFlags::timing;
    HostEvent* const raw = event.get();
    runtime_.events.emplace(raw, std::move(event));
    *handle = reinterpret_cast<EventHandle>(raw);
    return Result::success;
  });
}

Result HostBackend::event_destroy(EventHandle handle) {
  return enter(Call::event_destroy,
               [&](Lock&) { return runtime_.events.erase(handle) == 1 ? Result::success : bad_handle("event"); });
}

Result HostBackend::event_record(EventHandle event_handle, StreamHandle stream_handle, EventUseFlags use) {
  return enter(Call::event_record, [&](Lock&) {
    HostStream* const stream = find(stream_handle);
    HostEvent* const event = runtime_.find(event_handle);
    if (stream == nullptr) return bad_handle("stream");
    if (event == nullptr) return bad_handle("event");
    if (const Result bad = check_use(use); bad != Result::success) return bad;
    const bool external = use == EventUseFlags::external;
    const Result rule = check_capture_rules(runtime_, {Call::event_record, &device_, stream, nullptr, external});
    if (rule != Result::success) return rule;
    if (event->device != stream->device)
      return refuse_work(Call::event_record, *stream,
                         fail(Result::invalid_handle, "event and stream are of two devices"));
    if (stream->capture != nullptr && external) {
      submit(*stream, NodeType::event_record, EventRecordNodeParams{event_handle});
      return Result::success;
    }
    event->capture = stream->capture;
    event->captured_dependencies = stream->capture_dependencies;
    if (stream->capture != nullptr) return Result::success;
    event->recorded = true;
    if (!event->timing && !stream->legacy && !stream->blocking) {
      event->point = stream->tail;
      return Result::success;
    }
    OperationRef point(new PointOperation);
    if (event->timing) point->set_timed();
    stream->device->enqueue(*stream, point);
    event->point = std::move(point);
    return Result::success;
  });
}

Result HostBackend::event_query(EventHandle handle) {
  return enter(Call::event_query, [&](Lock& lock) {
    HostEvent* const event = runtime_.find(handle);
    if (event == nullptr) return bad_handle("event");
    const Result rule = check_capture_rules(runtime_, {Call::event_query, &device_, nullptr, event});
    if (rule != Result::success) return rule;
    const OperationRef point = event->point;
    return query(lock, {&point, 1});
  });
}

Result HostBackend::event_synchronize(EventHandle handle) {
  return enter(Call::event_synchronize, [&](Lock& lock) {
    HostEvent* const event = runtime_.find(handle);
    if (event == nullptr) return bad_handle("event");
    const Result rule = check_capture_rules(runtime_, {Call::event_synchronize, &device_, nullptr, event});
    return rule != Result::success ? rule : wait(lock, {event->point});
  });
}

Result HostBackend::event_elapsed_ms(float* milliseconds, EventHandle start_handle, EventHandle end_handle) {
  return enter(Call::event_elapsed_ms, [&](Lock& lock) {
    make_progress(lock);
    const HostEvent* const start = runtime_.find(start_handle);
    const HostEvent* const end = runtime_.find(end_handle);
    if (start == nullptr || end == nullptr) return bad_handle("event");
    for (const HostEvent* event : {start, end}) {
      if (event->capture != nullptr)
        return fail(event->capture->state == Capture::State::active ? Result::captured_event : Result::invalid_value,
                    "an event was last recorded in a capture, where no time passes");
      if (!event->timing || !event->recorded)
        return fail(Result::invalid_handle, "an event was never recorded, or was made without timing");
      if (!event->point.done()) return fail(Result::not_ready, "an event is not complete yet");
      host_waited({&event->point, 1});
    }
    const auto elapsed = end->point->completed_at() - start->point->completed_at();
    *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
    return Result::success;
  });
}

}  // namespace reprise::backend::host
