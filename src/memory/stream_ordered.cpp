// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"
#include "backend/check.h"
#include "captures/registry.h"
#include "memory/allocator_impl.h"
#include "reprise/memory.h"
#include "reprise/public_call.h"
#include "text/format.h"
#include "text/size.h"

// Memory of the driver's stream-ordered pool, and of allocation nodes.

namespace reprise {

using backend::Backend;
using backend::Call;
using backend::Checked;

namespace {

// The runtime takes such a call, and would refuse to instantiate the graph, without a reason.
void refuse_in_body(const char* call, const StreamRef& stream) {
  if (!captures::any_underway() || captures::find(stream).body == nullptr) return;
  throw UsageError(
      text::format("{}: expected a stream that does not capture the body of a conditional node, which can neither "
                   "allocate nor free memory in the order of a stream; found one that does; take memory of the caching "
                   "allocator, which is the graph's, or allocate before the node. The capture continues.",
                   call));
}

[[noreturn]] void throw_out_of_memory(const Device& device, std::size_t bytes) {
  MemoryInfo info;
  const backend::RelaxedCaptureMode relaxed(device.backend());
  backend::WarnOnError(device.backend()).memory_info(&info);
  CachingAllocator& allocator = CachingAllocator::of(device);
  const PoolStatistics held = allocator.statistics();
  OutOfMemoryError::Statistics statistics;
  statistics.requested = bytes;
  statistics.device_free = info.free;
  statistics.device_total = info.total;
  statistics.reserved = held.reserved_bytes;
  statistics.allocated = held.allocated_bytes;
  throw OutOfMemoryError(
      text::format(
          "allocate_async: out of memory on {}: {} bytes were requested; the device has {} free of {}. The caching "
          "allocator holds {}\nFree memory, reset graphs that are no longer needed, or request less.",
          device.str(), bytes, text::size_text(info.free), text::size_text(info.total), allocator.impl().holdings()),
      statistics);
}

}  // namespace

void* allocate_async(std::size_t bytes, const StreamRef& stream) {
  const detail::PublicCall call("allocate_async");
  if (bytes == 0) return nullptr;
  refuse_in_body("allocate_async", stream);
  Backend& runtime = stream.device().backend();
  void* memory = nullptr;
  backend::Result result = runtime.memory_allocate_async(&memory, bytes, stream.native());
  if (result == ErrorCode::out_of_memory) {
    CachingAllocator::of(stream.device()).empty_cache();
    result = runtime.memory_allocate_async(&memory, bytes, stream.native());
    if (result == ErrorCode::out_of_memory) throw_out_of_memory(stream.device(), bytes);
  }
  backend::check(runtime, Call::memory_allocate_async, result);
  return memory;
}

void free_async(void* pointer, const StreamRef& stream) {
  const detail::PublicCall call("free_async");
  if (pointer == nullptr) return;
  refuse_in_body("free_async", stream);
  // At the start of a segment the driver would take it.
  if (const auto block = CachingAllocator::of(stream.device()).impl().find_block(pointer))
    throw UsageError(
        text::format("free_async: expected memory of allocate_async(); found {}, in a block of {} bytes of the caching "
                     "allocator; free that with CachingAllocator::deallocate(), or destroy its Buffer",
                     pointer, block->bytes));
  Checked(stream.device().backend()).memory_free_async(pointer, stream.native());
}

}  // namespace reprise
