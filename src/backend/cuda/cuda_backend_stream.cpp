// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda_backend.h"

// Streams and events.

namespace reprise::backend::cuda {

static_assert(static_cast<unsigned>(StreamFlags::blocking) == CU_STREAM_DEFAULT);
static_assert(static_cast<unsigned>(StreamFlags::non_blocking) == CU_STREAM_NON_BLOCKING);
static_assert(static_cast<unsigned>(EventFlags::timing) == CU_EVENT_DEFAULT);
static_assert(static_cast<unsigned>(EventFlags::disable_timing) == CU_EVENT_DISABLE_TIMING);
static_assert(static_cast<unsigned>(EventUseFlags::ordering) == CU_EVENT_RECORD_DEFAULT);
static_assert(static_cast<unsigned>(EventUseFlags::external) == CU_EVENT_RECORD_EXTERNAL);
static_assert(static_cast<unsigned>(EventUseFlags::ordering) == CU_EVENT_WAIT_DEFAULT);
static_assert(static_cast<unsigned>(EventUseFlags::external) == CU_EVENT_WAIT_EXTERNAL);

Result CudaBackend::stream_create(StreamHandle* stream, StreamFlags flags, int priority) {
  return enter_for<CUstream>(Call::stream_create, stream, [&](CUstream* made) {
    return driver_.cuStreamCreateWithPriority(made, static_cast<unsigned>(flags), priority);
  });
}

Result CudaBackend::stream_destroy(StreamHandle stream) {
  return enter({Call::stream_destroy, stream}, [&] {
    const CUresult result = driver_.cuStreamDestroy(stream);
    if (result == CUDA_SUCCESS) CaptureWatch::instance().ended(stream);
    return result;
  });
}

Result CudaBackend::stream_flags(StreamHandle stream, StreamFlags* flags) {
  return enter({Call::stream_flags, stream}, [&] {
    unsigned bits = 0;
    const CUresult result = driver_.cuStreamGetFlags(stream, &bits);
    if (result == CUDA_SUCCESS) *flags = static_cast<StreamFlags>(bits & CU_STREAM_NON_BLOCKING);
    return result;
  });
}

Result CudaBackend::stream_priority(StreamHandle stream, int* priority) {
  return enter({Call::stream_priority, stream}, [&] { return driver_.cuStreamGetPriority(stream, priority); });
}

Result CudaBackend::stream_id(StreamHandle stream, std::uint64_t* id) {
  return enter_for<unsigned long long>(
      {Call::stream_id, stream}, id, [&](unsigned long long* number) { return driver_.cuStreamGetId(stream, number); });
}

Result CudaBackend::stream_synchronize(StreamHandle stream) {
  return enter({Call::stream_synchronize, stream}, [&] { return driver_.cuStreamSynchronize(stream); });
}

Result CudaBackend::stream_query(StreamHandle stream) {
  return enter({Call::stream_query, stream}, [&] { return driver_.cuStreamQuery(stream); });
}

Result CudaBackend::stream_wait_event(StreamHandle stream, EventHandle event, EventUseFlags use) {
  return enter({Call::stream_wait_event, stream},
               [&] { return driver_.cuStreamWaitEvent(stream, event, static_cast<unsigned>(use)); });
}

Result CudaBackend::event_create(EventHandle* event, EventFlags flags) {
  return enter_for<CUevent>(Call::event_create, event,
                            [&](CUevent* made) { return driver_.cuEventCreate(made, static_cast<unsigned>(flags)); });
}

Result CudaBackend::event_destroy(EventHandle event) {
  return enter(Call::event_destroy, [&] { return driver_.cuEventDestroy(event); });
}

Result CudaBackend::event_record(EventHandle event, StreamHandle stream, EventUseFlags use) {
  return enter({Call::event_record, stream},
               [&] { return driver_.cuEventRecordWithFlags(event, stream, static_cast<unsigned>(use)); });
}

Result CudaBackend::event_query(EventHandle event) {
  return enter(Call::event_query, [&] { return driver_.cuEventQuery(event); });
}

Result CudaBackend::event_synchronize(EventHandle event) {
  return enter(Call::event_synchronize, [&] { return driver_.cuEventSynchronize(event); });
}

Result CudaBackend::event_elapsed_ms(float* milliseconds, EventHandle start, EventHandle end) {
  return enter_for<float>(Call::event_elapsed_ms, milliseconds,
                          [&](float* elapsed) { return driver_.cuEventElapsedTime(elapsed, start, end); });
}

}  // namespace reprise::backend::cuda
