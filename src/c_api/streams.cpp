// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "c_api/objects.h"
#include "c_api/status.h"

// Devices and streams.

using reprise::Device;
using reprise::StreamRef;
using namespace reprise::c_api;

reprise_status reprise_device_parse(const char* text, const reprise_device** device) {
  return guarded("reprise_device_parse", [&] {
    require(text, "text");
    required(device, "device") = handle_of(Device::parse(text));
  });
}

reprise_status reprise_device_default(const reprise_device** device) {
  return guarded("reprise_device_default", [&] { required(device, "device") = handle_of(reprise::default_device()); });
}

reprise_status reprise_device_text(const reprise_device* device, char* buffer, size_t size, size_t* length) {
  return guarded("reprise_device_text", [&] { write_text(device_of(device).str(), buffer, size, length); });
}

reprise_status reprise_device_synchronize(const reprise_device* device) {
  return guarded("reprise_device_synchronize", [&] { device_of(device).synchronize(); });
}

reprise_status reprise_device_memory(const reprise_device* device, size_t* free_bytes, size_t* total_bytes) {
  return guarded("reprise_device_memory", [&] {
    size_t& free = required(free_bytes, "free_bytes");
    size_t& total = required(total_bytes, "total_bytes");
    const reprise::MemoryInfo info = device_of(device).memory_info();
    free = info.free;
    total = info.total;
  });
}

reprise_status reprise_stream_create(const reprise_device* device, const reprise_stream_options* options,
                                     reprise_stream** stream) {
  return guarded("reprise_stream_create", [&] {
    reprise_stream*& result = required(stream, "stream");
    const reprise_stream_options wanted = read_options(options);
    reprise::Stream own(device_of(device), {wanted.blocking != 0, wanted.priority});
    const StreamRef ref = own.ref();
    result = new reprise_stream{std::move(own), ref};
  });
}

reprise_status reprise_stream_wrap(const reprise_device* device, void* native, reprise_stream** stream) {
  return guarded("reprise_stream_wrap", [&] {
    reprise_stream*& result = required(stream, "stream");
    result = new reprise_stream{std::nullopt, {device_of(device), static_cast<reprise::StreamHandle>(native)}};
  });
}

void reprise_stream_destroy(reprise_stream* stream) {
  delete stream;
}

void* reprise_stream_native(const reprise_stream* stream) {
  return stream->ref.native();
}

reprise_status reprise_stream_device(const reprise_stream* stream, const reprise_device** device) {
  return guarded("reprise_stream_device", [&] { required(device, "device") = handle_of(ref_of(stream).device()); });
}

reprise_status reprise_stream_synchronize(const reprise_stream* stream) {
  return guarded("reprise_stream_synchronize", [&] { ref_of(stream).synchronize(); });
}

reprise_status reprise_stream_query(const reprise_stream* stream, int* completed) {
  return guarded("reprise_stream_query", [&] { required(completed, "completed") = ref_of(stream).query() ? 1 : 0; });
}

reprise_status reprise_stream_wait(const reprise_stream* stream, const reprise_stream* other) {
  return guarded("reprise_stream_wait", [&] { ref_of(stream).wait(required(other, "other").ref); });
}

reprise_status reprise_stream_is_capturing(const reprise_stream* stream, int* capturing) {
  return guarded("reprise_stream_is_capturing", [&] {
    required(capturing, "capturing") = ref_of(stream).capture_status() != reprise::CaptureStatus::none ? 1 : 0;
  });
}
