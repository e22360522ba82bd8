// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstring>
#include <new>

#include "backend/host/host_backend.h"
#include "backend/host/run/running.h"
#include "text/format.h"

// The work of streams: copies, sets, kernels, host functions.

namespace reprise::backend::host {
namespace {

constexpr unsigned usual_shared_bytes = 48U << 10;
constexpr unsigned most_shared_bytes = 227U << 10;
// As on an H200, for the limit of cooperative launches.
constexpr std::uint64_t multiprocessors = 132;
constexpr unsigned threads_per_multiprocessor = 2048;

/// An operation that does one unit of work.
class WorkOperation final : public Operation {
 public:
  WorkOperation(const HostStream& stream, Work work)
      : device_(*stream.device), place_{handle_of(stream)}, work_(std::move(work)) {}
  Task* run() override {
    execute(device_, work_, place_);
    work_ = EmptyNodeParams{};  // the stream keeps the operation; its resources are released now
    return device_.executor().complete(*this);
  }

 private:
  HostDevice& device_;
  const OperationPlace place_;
  Work work_;
};

}  // namespace

void HostBackend::submit(HostStream& stream, NodeType type, Work work, bool programmatic) {
  if (stream.capture != nullptr) {
    capture_node(runtime_, stream, type, std::move(work), programmatic);
    return;
  }
  std::vector<Access> accesses;
  if (runtime_.races != nullptr) [[unlikely]]
    accesses = accesses_of(runtime_, work, false);
  const OperationRef operation(new WorkOperation(stream, std::move(work)));
  stream.device->enqueue(stream, operation);
  if (runtime_.races == nullptr) [[likely]]
    return;
  try {
    runtime_.races->touch(stream, *operation.get(), std::move(accesses));
  } catch (const std::bad_alloc&) {
    // The work is submitted: its races are missed.
  }
}

Result HostBackend::refuse_work(Call call, HostStream& stream, Result result) const {
  break_capture(stream, call, result);
  return result;
}

Result HostBackend::check_range(const void* pointer, std::size_t bytes, const char* what, MemoryKind* kind) const {
  if (pointer == nullptr) return fail(ErrorCode::invalid_value, text::format("the {} is null", what));
  const PointerInfo info = host::pointer_info(runtime_, pointer);
  *kind = info.kind;
  if (info.kind == MemoryKind::unregistered) {
    const std::string owner = DeviceMemory::owner_of(pointer);
    if (owner.empty() && bytes <= UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(pointer)) return ErrorCode::success;
    if (owner.empty())
      return fail(ErrorCode::invalid_value,
                  text::format("the {} has {} bytes from {}, which end past the last address", what, bytes, pointer));
    const bool own = std::ranges::find(runtime_.devices, owner, &HostDevice::name) != runtime_.devices.end();
    return fail(
        ErrorCode::invalid_value,
        own ? text::format("the {} {} lies in device memory that is not allocated", what, pointer)
            : text::format("the {} {} lies in the memory of {}, which operations of {} cannot use; copy through "
                           "memory of the host, and wait in between",
                           what, pointer, owner, device_.name()));
  }
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - static_cast<const std::byte*>(info.base));
  if (bytes > info.bytes - offset)
    return fail(ErrorCode::invalid_value, text::format("the {} of {} bytes ends {} bytes past the end of the driver's "
                                                       "allocation that it lies in, of {} bytes",
                                                       what, bytes, bytes - (info.bytes - offset), info.bytes));
  return ErrorCode::success;
}

Result HostBackend::check_allocated(const void* pointer) const {
  if (runtime_.graph_memory.empty()) return ErrorCode::success;
  const auto memory = runtime_.find_graph_memory(host::pointer_info(runtime_, pointer).base);
  if (memory == nullptr || memory->allocated()) return ErrorCode::success;
  return fail(
      ErrorCode::invalid_value,
      text::format("{} lies in the memory of an allocation node, which is not allocated now: no launch of its graph "
                   "came before, or it was freed",
                   pointer));
}

Result HostBackend::check_memcpy(const MemcpyNodeParams& params, MemoryKind* destination, MemoryKind* source) const {
  *destination = *source = MemoryKind::unregistered;
  if (params.bytes == 0) return ErrorCode::success;
  if (Result result = check_range(params.destination, params.bytes, "destination", destination); result.failed())
    return result;
  return check_range(params.source, params.bytes, "source", source);
}

Result HostBackend::check_memset(const MemsetNodeParams& params) const {
  if (params.element_bytes != 1 && params.element_bytes != 2 && params.element_bytes != 4)
    return fail(ErrorCode::invalid_value,
                text::format("an element has {} bytes; 1, 2 or 4 can be set", params.element_bytes));
  if (params.count == 0) return ErrorCode::success;
  if (reinterpret_cast<std::uintptr_t>(params.destination) % params.element_bytes != 0)
    return fail(ErrorCode::invalid_value, "the destination is not aligned to the element");
  if (params.count > SIZE_MAX / params.element_bytes) return fail(ErrorCode::invalid_value, "too many elements");
  MemoryKind kind;
  Result result = check_range(params.destination, params.count * params.element_bytes, "destination", &kind);
  if (!result.failed() && kind == MemoryKind::unregistered)
    return fail(ErrorCode::invalid_value, "the destination is neither device memory nor pinned memory");
  return result;
}

Result HostBackend::check_kernel(const KernelNodeParams& params) const {
  if (params.function == nullptr) return fail(ErrorCode::invalid_handle, "there is no kernel");
  const auto& kernel = *reinterpret_cast<const KernelRecord*>(params.function);
  if (params.params == nullptr && !kernel.params.empty())
    return fail(ErrorCode::invalid_value,
                text::format("the kernel has {} parameters, and no arguments were given", kernel.params.size()));
  return ErrorCode::success;
}

Result HostBackend::check_launch_config(const KernelNodeParams& params) const {
  const LaunchConfig& c = params.config;
  const auto refuse = [](std::string why) { return fail(ErrorCode::invalid_value, std::move(why)); };
  if (c.grid.x == 0 || c.grid.y == 0 || c.grid.z == 0 || c.block.x == 0 || c.block.y == 0 || c.block.z == 0)
    return refuse(text::format("grid {} x {} x {} of blocks {} x {} x {}: every count must be at least 1", c.grid.x,
                               c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z));
  if (c.grid.x > 0x7FFFFFFFU || c.grid.y > 65535 || c.grid.z > 65535)
    return refuse(text::format("a grid of {} x {} x {}; at most 2147483647 x 65535 x 65535 is possible", c.grid.x,
                               c.grid.y, c.grid.z));
  if (c.block.x > 1024 || c.block.y > 1024 || c.block.z > 64 || std::uint64_t{c.block.x} * c.block.y * c.block.z > 1024)
    return refuse(
        text::format("a block of {} x {} x {} threads; at most 1024 x 1024 x 64, and 1024 together, are possible",
                     c.block.x, c.block.y, c.block.z));
  const auto set = device_.max_shared().find(params.function);
  const unsigned most = set == device_.max_shared().end() ? usual_shared_bytes : set->second;
  if (c.shared_bytes > most)
    return refuse(text::format("{} bytes of shared memory; this kernel may have {}", c.shared_bytes, most));
  if (c.cluster.x == 0 || c.cluster.y == 0 || c.cluster.z == 0 || c.grid.x % c.cluster.x != 0 ||
      c.grid.y % c.cluster.y != 0 || c.grid.z % c.cluster.z != 0 ||
      std::uint64_t{c.cluster.x} * c.cluster.y * c.cluster.z > 8)
    return refuse(
        text::format("clusters of {} x {} x {} blocks; at most 8 together are possible, and they must divide the "
                     "grid",
                     c.cluster.x, c.cluster.y, c.cluster.z));
  const std::uint64_t resident = multiprocessors * (threads_per_multiprocessor / (c.block.x * c.block.y * c.block.z));
  if (c.cooperative && std::uint64_t{c.grid.x} * c.grid.y * c.grid.z > resident)
    return fail(ErrorCode::cooperative_launch_too_large,
                text::format("a cooperative launch of {} x {} x {} blocks; {} of this size fit on the device at once",
                             c.grid.x, c.grid.y, c.grid.z, resident));
  return ErrorCode::success;
}

Result HostBackend::copy_on(Call call, StreamHandle handle, const MemcpyNodeParams& params) {
  return enter_stream(call, handle, [&](Lock& lock, HostStream& stream) -> Result {
    MemoryKind destination, source;
    Result result = check_memcpy(params, &destination, &source);
    if (result.failed() || params.bytes == 0) return result;
    if (stream.capture != nullptr) {
      submit(stream, NodeType::memcpy, params);
      return ErrorCode::success;
    }
    for (const void* const pointer : {static_cast<const void*>(params.destination), params.source})
      if (Result bad = check_allocated(pointer); bad.failed()) return bad;
    if (source == MemoryKind::unregistered && destination != MemoryKind::unregistered) {
      const auto* const first = static_cast<const std::byte*>(params.source);
      submit(stream, NodeType::memcpy, StagedCopy{params.destination, {first, first + params.bytes}});
    } else {
      submit(stream, NodeType::memcpy, params);
    }
    // Copies to pageable memory, and calls without a stream, return after completion, as in CUDA.
    if (destination == MemoryKind::unregistered || call == Call::copy) return wait_for_last(lock, stream);
    return ErrorCode::success;
  });
}

Result HostBackend::copy(void* destination, const void* source, std::size_t bytes) {
  return copy_on(Call::copy, nullptr, {destination, source, bytes});
}

Result HostBackend::copy_async(void* destination, const void* source, std::size_t bytes, StreamHandle handle) {
  return copy_on(Call::copy_async, handle, {destination, source, bytes});
}

Result HostBackend::set_on(Call call, StreamHandle handle, const MemsetNodeParams& params) {
  return enter_stream(call, handle, [&](Lock& lock, HostStream& stream) -> Result {
    Result result = check_memset(params);
    if (result.failed() || params.count == 0) return result;
    if (stream.capture == nullptr)
      if (Result bad = check_allocated(params.destination); bad.failed()) return bad;
    submit(stream, NodeType::memset, params);
    return call == Call::set ? wait_for_last(lock, stream) : ErrorCode::success;
  });
}

Result HostBackend::set(const MemsetNodeParams& params) {
  return set_on(Call::set, nullptr, params);
}

Result HostBackend::set_async(const MemsetNodeParams& params, StreamHandle handle) {
  return set_on(Call::set_async, handle, params);
}

Result HostBackend::kernel_function(const KernelRecord& kernel, FunctionHandle* function) {
  return enter_unlocked(Call::kernel_function, [&]() -> Result {
    if (kernel.host_entry == nullptr)
      return fail(ErrorCode::invalid_device_function, "the kernel is a __global__ function, compiled for CUDA alone");
    *function = reinterpret_cast<FunctionHandle>(const_cast<KernelRecord*>(&kernel));
    return ErrorCode::success;
  });
}

Result HostBackend::function_name(FunctionHandle function, const char** name) {
  return enter_unlocked(Call::function_name, [&]() -> Result {
    if (function == nullptr) return fail(ErrorCode::invalid_handle, "there is no kernel");
    *name = reinterpret_cast<const KernelRecord*>(function)->name.c_str();
    return ErrorCode::success;
  });
}

Result HostBackend::function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) {
  return enter_unlocked(Call::function_param_info, [&]() -> Result {
    if (function == nullptr) return fail(ErrorCode::invalid_handle, "there is no kernel");
    const auto& params = reinterpret_cast<const KernelRecord*>(function)->params;
    if (index >= params.size())
      return fail(ErrorCode::invalid_value, text::format("the kernel has {} parameters", params.size()));
    *param = params[index];
    return ErrorCode::success;
  });
}

Result HostBackend::function_set_max_shared(FunctionHandle function, unsigned bytes) {
  return enter(Call::function_set_max_shared, [&](Lock&) -> Result {
    if (function == nullptr) return fail(ErrorCode::invalid_handle, "there is no kernel");
    if (bytes > most_shared_bytes)
      return fail(ErrorCode::invalid_value,
                  text::format("{} bytes of shared memory; a block can have at most {}", bytes, most_shared_bytes));
    device_.max_shared()[function] = bytes;
    return ErrorCode::success;
  });
}

Result HostBackend::launch_kernel(const KernelNodeParams& launch, StreamHandle handle) {
  return enter_stream(Call::launch_kernel, handle, [&](Lock&, HostStream& stream) -> Result {
    if (Result bad = check_kernel(launch); bad.failed()) return bad;
    if (stream.device != &device_) return fail(ErrorCode::invalid_handle, "the stream belongs to another device");
    if (Result bad = check_launch_config(launch); bad.failed())
      return refuse_work(Call::launch_kernel, stream, std::move(bad));
    // In a graph it is a property of the edges.
    KernelNodeParams alone = launch;
    alone.config.programmatic = false;
    submit(stream, NodeType::kernel, KernelWork(alone), launch.config.programmatic);
    return ErrorCode::success;
  });
}

Result HostBackend::launch_host_function(const HostNodeParams& params, StreamHandle handle) {
  return enter_stream(Call::launch_host_function, handle, [&](Lock&, HostStream& stream) -> Result {
    if (params.function == nullptr) return fail(ErrorCode::invalid_value, "the function is null");
    submit(stream, NodeType::host, params);
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host
