// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"
#include "backend/check.h"
#include "backend/objects/outside_work.h"
#include "captures/registry.h"
#include "memory/allocator_impl.h"
#include "memory/node_memory.h"
#include "reprise/detail/public_call.h"
#include "reprise/memory.h"
#include "text/format.h"

// Memory of the driver's stream-ordered pool, and of allocation nodes.

namespace reprise {

using backend::Backend;
using backend::Call;

namespace {

// The capture of this library that the stream takes part in, or null. Refuses that of a body: the runtime takes such a
// call, and would refuse to instantiate the graph, without a reason.
std::shared_ptr<captures::Capture> capture_of(const char* call, const StreamRef& stream) {
  if (!captures::any_underway()) return nullptr;
  const captures::Found found = captures::find(stream);
  if (found.body == nullptr) return found.part == captures::Part::own ? found.capture : nullptr;
  throw UsageError(
      text::format("{}: expected a stream outside of bodies of conditional nodes, which can neither allocate nor free "
                   "in the order of a stream; found one in a body; take memory of the caching "
                   "allocator, which is the graph's, or allocate before the node. The capture continues.",
                   call));
}

}  // namespace

void* allocate_async(std::size_t bytes, const StreamRef& stream) {
  const detail::PublicCall call("allocate_async");
  if (bytes == 0) return nullptr;
  backend::OutsideWork::require_none(stream, "allocate_async");
  const std::shared_ptr<captures::Capture> capture = capture_of("allocate_async", stream);
  Backend& runtime = stream.device().backend();
  void* memory = nullptr;
  backend::Result result = runtime.memory_allocate_async(&memory, bytes, stream.native());
  if (result == ErrorCode::out_of_memory) {
    CachingAllocator& allocator = CachingAllocator::of(stream.device());
    allocator.empty_cache();
    result = runtime.memory_allocate_async(&memory, bytes, stream.native());
    if (result == ErrorCode::out_of_memory) allocator.impl().throw_driver_out_of_memory("allocate_async", bytes);
  }
  backend::check(runtime, Call::memory_allocate_async, result);
  if (capture != nullptr) memory::NodeMemory::allocated(*capture, stream.device(), memory, bytes);
  return memory;
}

// On a stream outside of a capture it frees memory from before that, which is right once.
void free_async(void* pointer, const StreamRef& stream) {
  const detail::PublicCall call("free_async");
  if (pointer == nullptr) return;
  const std::shared_ptr<captures::Capture> capture = capture_of("free_async", stream);
  // At the start of a segment the driver would take it.
  if (const auto block = CachingAllocator::of(stream.device()).impl().find_block(pointer))
    throw UsageError(
        text::format("free_async: expected memory of allocate_async(); found {}, in a block of {} bytes of the caching "
                     "allocator; free that with CachingAllocator::deallocate(), or destroy its Buffer",
                     pointer, block->bytes));
  Backend& runtime = stream.device().backend();
  const backend::Result result = runtime.memory_free_async(pointer, stream.native());
  if (result == ErrorCode::invalid_value)
    if (const std::string graph = memory::NodeMemory::freed_with(pointer); !graph.empty())
      throw UsageError(text::format(
          "free_async: expected memory that is allocated; found {}, which the end of {} freed: what replays leave "
          "allocated is the graph's with InstantiateFlags::auto_free_on_launch; free it while the graph lives, or "
          "capture the graph without that flag (GraphOptions::instantiate_flags)",
          pointer, graph));
  backend::check(runtime, Call::memory_free_async, result);
  memory::NodeMemory::freed(capture.get(), pointer);
}

}  // namespace reprise
