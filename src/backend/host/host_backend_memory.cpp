// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "backend/host/host_backend.h"
#include "text/format.h"

// Memory: of the device, of allocation nodes, pinned.

namespace reprise::backend::host {

namespace {

// True if the graph, or one in its nodes, has work of this type on the memory.
template <class MemoryWork>
bool has(const HostGraph& graph, const GraphMemory& memory) {
  const auto is_it = [&](const HostNode& node) {
    const auto* const work = std::get_if<MemoryWork>(&node.work);
    return work != nullptr && work->memory.get() == &memory;
  };
  return find_node(graph, is_it) != nullptr;
}

}  // namespace

Result HostBackend::make_node_work(const HostGraph& graph, HostDevice& device, const NodeParams& params,
                                   Work* work) const {
  const auto* const allocation = std::get_if<MemoryAllocateNodeParams>(&params);
  const auto* const free = std::get_if<MemoryFreeNodeParams>(&params);
  if (allocation == nullptr && free == nullptr) {
    *work = make_work(params);
    return ErrorCode::success;
  }
  if (lies_in(NodeType::child_graph, graph))
    return fail(ErrorCode::not_supported, "a child graph cannot have allocation or free nodes");
  if (allocation != nullptr) {
    if (allocation->bytes == 0) return fail(ErrorCode::invalid_value, "0 bytes cannot be allocated");
    std::shared_ptr<GraphMemory> memory = runtime_.new_graph_memory(device, allocation->bytes);
    if (memory == nullptr)
      return fail(ErrorCode::out_of_memory, text::format("{} bytes were requested", allocation->bytes));
    forget_accesses(memory->address(), memory->bytes());
    *work = GraphAllocation{std::move(memory)};
    return ErrorCode::success;
  }
  std::shared_ptr<GraphMemory> memory = runtime_.find_graph_memory(free->address);
  if (memory == nullptr)
    return fail(ErrorCode::invalid_value,
                "a free node frees what an allocation node allocated, and none returned this address");
  if (memory->freed_by_its_graph || has<GraphFree>(outermost(graph), *memory))
    return fail(ErrorCode::invalid_value, "a free node frees this memory already");
  *work = GraphFree{std::move(memory)};
  return ErrorCode::success;
}

void HostBackend::note_free(const HostNode& node) {
  GraphMemory& memory = *std::get<GraphFree>(node.work).memory;
  memory.freed_by_its_graph |= has<GraphAllocation>(outermost(*node.graph), memory);
}

Result HostBackend::check_free(const GraphMemory& memory) {
  if (memory.freed_by_its_graph)
    return fail(ErrorCode::invalid_value, "the graph that allocates this memory frees it, too: nothing else can");
  if (!memory.allocated())
    return fail(ErrorCode::invalid_value,
                "the memory belongs to an allocation node, and no launch of its graph has left it allocated");
  return ErrorCode::success;
}

std::vector<OperationRef> HostBackend::all_work() const {
  std::vector<OperationRef> all;
  for (const auto& device : runtime_.devices) {
    const std::vector<OperationRef> frontier = device->frontier();
    all.insert(all.end(), frontier.begin(), frontier.end());
  }
  return all;
}

Result HostBackend::memory_allocate(void** pointer, std::size_t bytes) {
  return enter(Call::memory_allocate, [&](Lock&) -> Result {
    if (Result rule = check(Call::memory_allocate); rule.failed()) return rule;
    const ErrorCode result = device_.memory().allocate(pointer, bytes);
    if (result == ErrorCode::success) {
      forget_accesses(*pointer, bytes);
      return result;
    }
    if (result == ErrorCode::invalid_value) return fail(result, "0 bytes cannot be allocated");
    const std::size_t free = device_.memory().free_bytes();
    return fail(result, text::format(
                            "{} bytes were requested, {} of {} are free{}", bytes, free, device_.memory().total_bytes(),
                            free < bytes ? ""
                                         : "; the system does not provide them, because of a limit of the process "
                                           "(ulimit -d, ulimit -v), or they are in smaller pieces"));
  });
}

Result HostBackend::memory_free(void* pointer) {
  return enter(Call::memory_free, [&](Lock& lock) -> Result {
    Result rule = check(Call::memory_free);
    if (rule.failed() || pointer == nullptr) return rule;
    if (const std::shared_ptr<GraphMemory> memory = runtime_.find_graph_memory(pointer)) {
      if (Result bad = check_free(*memory); bad.failed()) return bad;
      memory->set_freed();
      if (Result waited = wait(lock, all_work()); waited.failed()) return waited;
      memory->poison();
      return ErrorCode::success;
    }
    HostDevice* owner = nullptr;
    for (const auto& device : runtime_.devices)
      if (device->memory().starts_block(pointer)) owner = device.get();
    if (owner == nullptr) return fail(ErrorCode::invalid_value, "no block of device memory starts at this address");
    const std::vector<OperationRef> frontier = owner->frontier();
    if (Result waited = wait(lock, frontier); waited.failed()) return waited;
    return owner->memory().free(pointer);
  });
}

Result HostBackend::memory_allocate_async(void** pointer, std::size_t bytes, StreamHandle handle) {
  return enter_stream(Call::memory_allocate_async, handle, [&](Lock& lock, HostStream& stream) -> Result {
    if (bytes == 0) {
      *pointer = nullptr;
      return ErrorCode::success;
    }
    if (stream.capture != nullptr) {
      Work work;
      const NodeParams params = MemoryAllocateNodeParams{bytes};
      if (Result bad = make_node_work(*stream.capture->graph, *stream.device, params, &work); bad.failed()) return bad;
      void* const address = std::get<GraphAllocation>(work).memory->address();
      capture_node(runtime_, stream, NodeType::memory_allocate, std::move(work));
      *pointer = address;
      return ErrorCode::success;
    }
    HostDevice& device = *stream.device;  // the stream may be destroyed while this waits
    ErrorCode result = device.memory().allocate(pointer, bytes);
    // As CUDA, which reuses what is freed in the order of streams.
    while (result == ErrorCode::out_of_memory && bytes <= device.memory().total_bytes()) {
      const OperationRef free = device.pending_free();
      result = device.memory().allocate(pointer, bytes);
      if (result != ErrorCode::out_of_memory || !free) break;
      lock.unlock();
      const bool freed = runtime_.executor.try_wait(free);
      lock.lock();
      if (device_.has_sticky_error()) return refuse_caller();
      if (!freed) break;
    }
    if (result != ErrorCode::success) return fail(result, text::format("{} bytes were requested", bytes));
    forget_accesses(*pointer, bytes);
    return ErrorCode::success;
  });
}

Result HostBackend::memory_free_async(void* pointer, StreamHandle handle) {
  return enter_stream(Call::memory_free_async, handle, [&](Lock&, HostStream& stream) -> Result {
    if (pointer == nullptr) return ErrorCode::success;
    if (stream.capture != nullptr) {
      Work work;
      const NodeParams params = MemoryFreeNodeParams{pointer};
      if (Result bad = make_node_work(*stream.capture->graph, *stream.device, params, &work); bad.failed()) return bad;
      note_free(capture_node(runtime_, stream, NodeType::memory_free, std::move(work)));
      return ErrorCode::success;
    }
    if (std::shared_ptr<GraphMemory> memory = runtime_.find_graph_memory(pointer)) {
      if (Result bad = check_free(*memory); bad.failed()) return bad;
      submit(stream, NodeType::memory_free, GraphFree{memory});
      memory->set_freed();
      return ErrorCode::success;
    }
    if (!stream.device->memory().starts_block(pointer))
      return fail(ErrorCode::invalid_value, "no block of this device's memory starts at this address");
    stream.device->make_room_for_free();
    submit(stream, NodeType::memory_free, MemoryFreeNodeParams{pointer});
    stream.device->note_free(stream.tail);
    return ErrorCode::success;
  });
}

Result HostBackend::memory_pool_trim(std::size_t) {
  // Stream-ordered memory returns to the device as soon as it is freed: there is nothing to trim.
  return enter(Call::memory_pool_trim, [&](Lock&) -> Result { return check(Call::memory_pool_trim); });
}

Result HostBackend::pinned_allocate(void** pointer, std::size_t bytes) {
  return enter(Call::pinned_allocate, [&](Lock&) -> Result {
    if (Result rule = check(Call::pinned_allocate); rule.failed()) return rule;
    if (bytes == 0) {
      *pointer = nullptr;
      return ErrorCode::success;
    }
    // operator new rounds the size up, past which it would wrap.
    void* const memory = bytes <= PTRDIFF_MAX
                             ? ::operator new (bytes, std::align_val_t{DeviceMemory::alignment}, std::nothrow)
                             : nullptr;
    if (memory == nullptr) return fail(ErrorCode::out_of_memory, text::format("{} bytes were requested", bytes));
    try {
      runtime_.pinned.emplace(reinterpret_cast<std::uintptr_t>(memory), PinnedBlock{bytes, next_id()});
    } catch (...) {
      ::operator delete (memory, std::align_val_t{DeviceMemory::alignment});
      throw;
    }
    forget_accesses(memory, bytes);
    *pointer = memory;
    return ErrorCode::success;
  });
}

Result HostBackend::pinned_free(void* pointer) {
  return enter(Call::pinned_free, [&](Lock& lock) -> Result {
    Result rule = check(Call::pinned_free);
    if (rule.failed() || pointer == nullptr) return rule;
    const std::vector<OperationRef> frontier = device_.frontier();
    if (runtime_.pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0)
      return fail(ErrorCode::invalid_value, "no block of pinned memory starts at this address");
    Result waited = wait(lock, frontier);
    ::operator delete (pointer, std::align_val_t{DeviceMemory::alignment});
    return waited;
  });
}

Result HostBackend::pointer_info(const void* pointer, PointerInfo* info) {
  return enter(Call::pointer_info, [&](Lock&) -> Result {
    *info = host::pointer_info(runtime_, pointer);
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host
