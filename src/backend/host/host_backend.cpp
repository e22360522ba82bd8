// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_backend.h"

#include <algorithm>
#include <deque>
#include <new>

#include "backend/check.h"
#include "support/immortal.h"
#include "support/thread_object.h"
#include "text/format.h"

// The device itself and its memory.

namespace reprise::backend::host {
namespace {

struct ErrorDetail {
  std::string text;
};

}  // namespace

std::string& thread_error_detail() noexcept {
  return support::ThreadObject<ErrorDetail>::get().text;
}

HostResult HostBackend::refuse_caller() const {
  if (support::forked()) [[unlikely]]
    return fail(ErrorCode::not_initialized, forked_detail);
  if (executing())
    return fail(ErrorCode::not_permitted,
                "host functions, kernels and user objects' destructors must not call the device runtime");
  if (device_.has_sticky_error() && !CleaningUp::underway())
    return fail(
        ErrorCode::launch_failure,
        text::format("an operation of this device failed earlier: {}. As on CUDA, the device stays unusable until "
                     "{} ends",
                     device_.sticky_error(), &face_ == this ? "the process" : "its HostSimulator"));
  return ErrorCode::success;
}

HostResult HostBackend::next_failure(Call call) const {
  if (CleaningUp::underway()) return ErrorCode::success;
  const auto happened = runtime_.failures.next(call, face_);
  return happened ? fail(happened->code, happened->detail) : HostResult(ErrorCode::success);
}

ErrorCode HostBackend::report(Lock& lock, Call call, HostResult result) const {
  if (!lock.owns_lock()) lock.lock();  // after a wait
  if (result.failed() && runtime_.watchers > 0) note_refused(runtime_, call, result);
  const bool incomplete = lacks_stacks(runtime_);
  lock.unlock();
  if (incomplete) add_stacks(runtime_);
  return keep_detail(std::move(result));
}

ErrorCode HostBackend::keep_detail(HostResult result) noexcept {
  try {
    if (result.failed()) thread_error_detail() = std::move(result.detail);
  } catch (const std::exception&) {
    // No memory for the thread's detail: the code has to do.
  }
  return result.code;
}

ErrorCode HostBackend::lacks_resources() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return keep_detail(ErrorCode::out_of_memory);
  } catch (const NoWorker& error) {
    return keep_detail({ErrorCode::operating_system, error.what()});
  }
}

HostResult HostBackend::bad_handle(const char* what) {
  return fail(ErrorCode::invalid_handle,
              text::format("there is no such {}: it was never made, or was destroyed", what));
}

HostResult HostBackend::no_such(const char* what) {
  return fail(ErrorCode::invalid_value, text::format("there is no such {}: it was never made, or was destroyed", what));
}

DeviceType HostBackend::type() const noexcept {
  return DeviceType::host;
}
int HostBackend::index() const noexcept {
  return device_.index();
}
std::string HostBackend::device_name() const {
  return "simulated host device";
}
std::string HostBackend::last_error_detail() const {
  return thread_error_detail();
}

HostResult HostBackend::wait(Lock& lock, std::span<const OperationRef> operations) const {
  // Work submitted by other threads during the wait counts as ordered, too: races may be missed, but none is invented.
  host_waited(operations);
  lock.unlock();
  for (const OperationRef& operation : operations) runtime_.executor.wait(operation);
  return device_.has_sticky_error() ? refuse_caller() : ErrorCode::success;
}

HostResult HostBackend::query(Lock& lock, std::span<const OperationRef> operations) const {
  const auto all_done = [&] {
    return std::all_of(operations.begin(), operations.end(), [](const OperationRef& each) { return each.done(); });
  };
  if (!all_done()) {
    if (!runtime_.executor.runs_by_steps()) {
      runtime_.executor.polled();
      return fail(ErrorCode::not_ready, {});
    }
    make_progress(lock);
    if (device_.has_sticky_error()) return refuse_caller();
    if (!all_done()) return fail(ErrorCode::not_ready, {});
  }
  host_waited(operations);
  return ErrorCode::success;
}

void HostBackend::make_progress(Lock& lock) const {
  if (!runtime_.executor.runs_by_steps()) [[likely]]
    return;
  lock.unlock();
  runtime_.executor.polled();
  lock.lock();
}

ErrorCode HostBackend::device_synchronize() {
  return enter(Call::device_synchronize, [&](Lock& lock) -> HostResult {
    HostResult rule = check(Call::device_synchronize);
    return rule.failed() ? rule : wait(lock, device_.frontier());
  });
}

ErrorCode HostBackend::memory_info(MemoryInfo* info) {
  return enter(Call::memory_info, [&](Lock& lock) -> HostResult {
    make_progress(lock);  // operations may free memory
    *info = {device_.memory().free_bytes(), device_.memory().total_bytes()};
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::stream_priority_range(int* least, int* greatest) {
  return enter(Call::stream_priority_range, [&](Lock&) -> HostResult {
    // As on an H200. Priorities are stored and reported; the simulated streams share their workers evenly.
    *least = 0;
    *greatest = -5;
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::memory_allocate(void** pointer, std::size_t bytes) {
  return enter(Call::memory_allocate, [&](Lock&) -> HostResult {
    if (HostResult rule = check(Call::memory_allocate); rule.failed()) return rule;
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

ErrorCode HostBackend::memory_free(void* pointer) {
  return enter(Call::memory_free, [&](Lock& lock) -> HostResult {
    HostResult rule = check(Call::memory_free);
    if (rule.failed() || pointer == nullptr) return rule;
    HostDevice* owner = nullptr;
    for (const auto& device : runtime_.devices)
      if (device->memory().starts_block(pointer)) owner = device.get();
    if (owner == nullptr) return fail(ErrorCode::invalid_value, "no block of device memory starts at this address");
    const std::vector<OperationRef> frontier = owner->frontier();
    if (HostResult waited = wait(lock, frontier); waited.failed()) return waited;
    return owner->memory().free(pointer);
  });
}

ErrorCode HostBackend::memory_allocate_async(void** pointer, std::size_t bytes, StreamHandle handle) {
  return enter(Call::memory_allocate_async, [&](Lock&) -> HostResult {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    if (stream->capture != nullptr && stream->capture->state == HostCapture::State::active)
      return fail(
          ErrorCode::not_supported,
          "the host device has no allocation nodes yet; the capture goes on. Allocate before the capture, or from "
          "the caching allocator");
    if (HostResult rule = check(Call::memory_allocate_async, stream); rule.failed()) return rule;
    if (bytes == 0) {
      *pointer = nullptr;
      return ErrorCode::success;
    }
    const ErrorCode result = stream->device->memory().allocate(pointer, bytes);
    if (result != ErrorCode::success) return fail(result, text::format("{} bytes were requested", bytes));
    forget_accesses(*pointer, bytes);
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::memory_free_async(void* pointer, StreamHandle handle) {
  return enter(Call::memory_free_async, [&](Lock&) -> HostResult {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    if (HostResult rule = check(Call::memory_free_async, stream); rule.failed()) return rule;
    if (pointer == nullptr) return ErrorCode::success;
    if (stream->capture != nullptr)
      return fail(ErrorCode::invalid_value, "memory that was not allocated in the capture cannot be freed in it");
    if (!stream->device->memory().starts_block(pointer))
      return fail(ErrorCode::invalid_value, "no block of this device's memory starts at this address");
    submit(*stream, NodeType::memory_free, MemoryFreeNodeParams{pointer});
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::memory_pool_trim(std::size_t) {
  // Stream-ordered memory returns to the device as soon as it is freed: there is nothing to trim.
  return enter(Call::memory_pool_trim, [&](Lock&) -> HostResult { return check(Call::memory_pool_trim); });
}

ErrorCode HostBackend::pinned_allocate(void** pointer, std::size_t bytes) {
  return enter(Call::pinned_allocate, [&](Lock&) -> HostResult {
    if (HostResult rule = check(Call::pinned_allocate); rule.failed()) return rule;
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

ErrorCode HostBackend::pinned_free(void* pointer) {
  return enter(Call::pinned_free, [&](Lock& lock) -> HostResult {
    HostResult rule = check(Call::pinned_free);
    if (rule.failed() || pointer == nullptr) return rule;
    const std::vector<OperationRef> frontier = device_.frontier();
    if (runtime_.pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0)
      return fail(ErrorCode::invalid_value, "no block of pinned memory starts at this address");
    HostResult waited = wait(lock, frontier);
    ::operator delete (pointer, std::align_val_t{DeviceMemory::alignment});
    return waited;
  });
}

ErrorCode HostBackend::pointer_info(const void* pointer, PointerInfo* info) {
  return enter(Call::pointer_info, [&](Lock&) -> HostResult {
    *info = host::pointer_info(runtime_, pointer);
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host

namespace reprise::backend {

const std::vector<Backend*>& host_backends() {
  struct Backends {
    Backends() {
      host::HostRuntime& runtime = host::HostRuntime::instance();
      for (const auto& device : runtime.devices) all.push_back(&made.emplace_back(runtime, *device));
    }
    std::deque<host::HostBackend> made;
    std::vector<Backend*> all;
  };
  static const support::Immortal<Backends> backends;
  return backends->all;
}

Backend* host_backend_of(StreamHandle stream) {
  Backend* found = nullptr;
  host::HostRuntime::for_each([&](host::HostRuntime& runtime) {
    const std::lock_guard lock(runtime.mutex);
    if (const auto known = runtime.streams.find(stream); known != runtime.streams.end())
      found = known->second->device->face;
  });
  return found;
}

}  // namespace reprise::backend
