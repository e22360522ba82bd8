// SPDX-License-Identifier: Apache-2.0

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/objects/device_uses.h"
#include "reprise/memory.h"
#include "text/format.h"

namespace reprise {

void copy_async(void* destination, const void* source, std::size_t bytes, const StreamRef& stream) {
  if (bytes == 0) return;  // an empty Buffer has a null address
  backend::Checked(stream.device().backend()).copy_async(destination, source, bytes, stream.native());
}

void fill_async(void* destination, unsigned char value, std::size_t bytes, const StreamRef& stream) {
  if (bytes == 0) return;
  const backend::Checked runtime(stream.device().backend());
  const backend::MemsetNodeParams params{destination, value, 1, bytes};
  runtime.set_async(params, stream.native());
}

namespace detail {

void buffer_too_large(std::size_t count, std::size_t value_bytes) {
  throw UsageError(text::format(
      "expected a buffer of fewer than 2^64 bytes; found {} values of {} bytes each; was the count negative "
      "before it became a std::size_t?",
      count, value_bytes));
}

void check_buffer_sizes(std::size_t buffer, std::size_t host) {
  if (buffer == host) return;
  throw UsageError(
      text::format("expected a host array of {} values, as many as the buffer has; found {}; pass a span of the same "
                   "size, or copy a part with copy_async()",
                   buffer, host));
}

void buffer_without_device() {
  throw UsageError(
      "expected a buffer that was made with memory; found one that was default-constructed or moved from, which is on "
      "no device; assign a buffer with memory first");
}

void* allocate_pinned(Device device, std::size_t bytes) {
  backend::DeviceUses* const uses = device.backend().uses();
  if (uses != nullptr && !uses->begin(backend::DeviceUses::Kind::buffer, bytes)) backend::refuse_closed(device);
  const backend::RelaxedCaptureMode relaxed(device.backend());
  void* pointer = nullptr;
  try {
    backend::Checked(device.backend()).pinned_allocate(&pointer, bytes);
  } catch (...) {
    if (uses != nullptr) uses->end(backend::DeviceUses::Kind::buffer, bytes);
    throw;
  }
  return pointer;
}

void free_pinned(Device device, void* pointer, std::size_t bytes) noexcept {
  {
    const backend::RelaxedCaptureMode relaxed(device.backend());
    backend::WarnOnError(device.backend()).pinned_free(pointer);
  }
  if (backend::DeviceUses* const uses = device.backend().uses()) uses->end(backend::DeviceUses::Kind::buffer, bytes);
}

void deallocate_buffer(CachingAllocator& allocator, void* pointer) noexcept {
  try {
    allocator.deallocate(pointer);
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

}  // namespace detail
}  // namespace reprise
