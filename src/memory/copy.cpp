// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <span>

#include "backend/backend.h"
#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/objects/outside_work.h"
#include "captures/registry.h"
#include "memory/allocator_impl.h"
#include "memory/watches/copy_origins.h"
#include "reprise/detail/public_call.h"
#include "reprise/log.h"
#include "reprise/memory.h"
#include "text/format.h"

namespace reprise {
namespace {

// For an error: the block of the allocator that an address lies in, of which the driver knows the segment alone.
std::string block_text(const Device& device, const char* what, const void* address) {
  const auto block = CachingAllocator::of(device).impl().find_block(address);
  if (!block) return {};
  return text::format("the {} {} is byte {} of a block of {} bytes of the caching allocator", what, address,
                      static_cast<std::size_t>(static_cast<const std::byte*>(address) - block->address), block->bytes);
}

// The runtime would write or read the next block of the segment.
void require_within_block(const Device& device, backend::Call call, const char* what, const void* address,
                          std::size_t bytes, SourceLocation where = SourceLocation::current()) {
  if (memory::exceeded_block(device, address, bytes)) [[unlikely]]
    backend::raise_refused(call, ErrorCode::invalid_value,
                           text::format("{}, and {} bytes go past its end", block_text(device, what, address), bytes),
                           where);
}

void require_copied(const StreamRef& stream, backend::Call call, const backend::Result& result, const void* destination,
                    const void* source, SourceLocation where = SourceLocation::current()) {
  if (!result.failed()) [[likely]]
    return;
  std::string blocks;
  if (result == ErrorCode::invalid_value) {
    blocks = block_text(stream.device(), "destination", destination);
    const std::string of_source = source != nullptr ? block_text(stream.device(), "source", source) : "";
    if (!blocks.empty() && !of_source.empty()) blocks += "; ";
    blocks += of_source;
  }
  backend::raise(stream.device().backend(), call, result, where, blocks);
}

// On a host device new memory has one value, and a copy to pageable memory is over when its call returns.
void warn_of_unwritten(const StreamRef& stream, const void* destination, const void* source, std::size_t bytes) {
  const Device device = stream.device();
  if (!CachingAllocator::of(device).impl().awaits_launch(source)) return;
  if (captures::any_underway() && backend::captures_work(stream)) return;
  const backend::PointerInfo info = backend::Checked(device.backend()).info_of(destination);
  if (info.kind != backend::MemoryKind::unregistered) return;
  constexpr std::byte of_new_memory{0xDB};
  constexpr std::size_t enough = 4096;
  const std::span copied(static_cast<const std::byte*>(destination), std::min(bytes, enough));
  if (std::ranges::any_of(copied, [&](std::byte each) { return each != of_new_memory; })) return;
  warn(text::format(
      "A copy read {} bytes at {} before anything wrote them: they were allocated in a capture whose graph was not "
      "replayed yet. Captured work is done by replays: replay the graph first, then read what it computes.",
      bytes, source));
}

}  // namespace

void copy_async(void* destination, const void* source, std::size_t bytes, const StreamRef& stream) {
  const detail::PublicCall call("copy_async");
  if (bytes == 0) return;  // an empty Buffer has a null address
  backend::OutsideWork::require_none(stream, "copy_async");
  const Device device = stream.device();
  require_within_block(device, backend::Call::copy_async, "destination", destination, bytes);
  require_within_block(device, backend::Call::copy_async, "source", source, bytes);
  const backend::Result result = device.backend().copy_async(destination, source, bytes, stream.native());
  require_copied(stream, backend::Call::copy_async, result, destination, source);
  memory::note_copy(destination, source, stream);
  if (device.type() == DeviceType::host) warn_of_unwritten(stream, destination, source, bytes);
}

void fill_async(void* destination, unsigned char value, std::size_t bytes, const StreamRef& stream) {
  const detail::PublicCall call("fill_async");
  if (bytes == 0) return;
  backend::OutsideWork::require_none(stream, "fill_async");
  const backend::MemsetNodeParams params{destination, value, 1, bytes};
  require_within_block(stream.device(), backend::Call::set_async, "destination", destination, bytes);
  const backend::Result result = stream.device().backend().set_async(params, stream.native());
  require_copied(stream, backend::Call::set_async, result, destination, nullptr);
}

namespace detail {

void buffer_too_large(std::size_t count, std::size_t value_bytes) {
  throw UsageError(text::format(
      "expected a buffer of fewer than 2^64 bytes; found {} values of {} bytes each; a negative count becomes "
      "such a number as a std::size_t",
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
      "expected a buffer that was made with memory; found one that was default-constructed or moved from; assign a "
      "buffer with memory first");
}

void* allocate_pinned(Device device, std::size_t bytes) {
  const backend::RelaxedCaptureMode relaxed(device.backend());
  void* pointer = nullptr;
  backend::Checked(device.backend()).pinned_allocate(&pointer, bytes);
  return pointer;
}

void free_pinned(Device device, void* pointer) noexcept {
  const backend::RelaxedCaptureMode relaxed(device.backend());
  backend::WarnOnError(device.backend()).pinned_free(pointer);
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
