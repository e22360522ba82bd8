// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_backend.h"

#include <algorithm>
#include <deque>
#include <new>

#include "support/immortal.h"
#include "text/format.h"

// The device itself and its memory.

namespace reprise::backend::host {

Result HostBackend::refuse_caller() const {
  if (executing())
    return fail(Result::not_permitted,
                "host functions, kernels and user objects' destructors must not call the device runtime");
  if (device_.has_sticky_error())
    return fail(
        Result::launch_failure,
        text::format("an operation of this device failed earlier: {}. As on CUDA, the device stays unusable until "
                     "the process ends",
                     device_.sticky_error()));
  return Result::success;
}

Result HostBackend::next_failure(Call call) const {
  const auto happened = runtime_.failures.next(call, *this);
  return happened ? fail(happened->code, happened->detail) : Result::success;
}

Result HostBackend::fail(Result result, std::string detail) {
  thread_error_detail() = std::move(detail);
  return result;
}

Result HostBackend::bad_handle(const char* what) {
  return fail(Result::invalid_handle, text::format("there is no such {}: it was never made, or was destroyed", what));
}

Result HostBackend::no_such(const char* what) {
  return fail(Result::invalid_value, text::format("there is no such {}: it was never made, or was destroyed", what));
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

Result HostBackend::wait(Lock& lock, const std::vector<OperationRef>& operations) const {
  // Work submitted by other threads during the wait counts as ordered, too: races may be missed, but none is invented.
  host_waited(operations);
  lock.unlock();
  for (const OperationRef& operation : operations) Executor::instance().wait(operation);
  return device_.has_sticky_error() ? refuse_caller() : Result::success;
}

Result HostBackend::query(Lock& lock, std::span<const OperationRef> operations) const {
  const auto all_done = [&] {
    return std::all_of(operations.begin(), operations.end(), [](const OperationRef& each) { return each.done(); });
  };
  if (!all_done()) {
    if (!Executor::instance().runs_by_steps()) {
      Executor::instance().polled();
      return fail(Result::not_ready, {});
    }
    make_progress(lock);
    if (device_.has_sticky_error()) return refuse_caller();
    if (!all_done()) return fail(Result::not_ready, {});
  }
  host_waited(operations);
  return Result::success;
}

void HostBackend::make_progress(Lock& lock) {
  if (!Executor::instance().runs_by_steps()) [[likely]]
    return;
  lock.unlock();
  Executor::instance().polled();
  lock.lock();
}

Result HostBackend::device_synchronize() {
  return enter(Call::device_synchronize, [&](Lock& lock) {
    const Result rule = check_capture_rules(runtime_, {Call::device_synchronize, &device_});
    return rule != Result::success ? rule : wait(lock, device_.frontier());
  });
}

Result HostBackend::memory_info(MemoryInfo* info) {
  return enter(Call::memory_info, [&](Lock& lock) {
    make_progress(lock);  // operations may free memory
    *info = {device_.memory().free_bytes(), device_.memory().total_bytes()};
    return Result::success;
  });
}

Result HostBackend::stream_priority_range(int* least, int* greatest) {
  return enter(Call::stream_priority_range, [&](Lock&) {
    // As on an H200. Priorities are stored and reported; the simulated streams share their workers evenly.
    *least = 0;
    *greatest = -5;
    return Result::success;
  });
}

Result HostBackend::memory_allocate(void** pointer, std::size_t bytes) {
  return enter(Call::memory_allocate, [&](Lock&) {
    const Result rule = check_capture_rules(runtime_, {Call::memory_allocate, &device_});
    if (rule != Result::success) return rule;
    const Result result = device_.memory().allocate(pointer, bytes);
    if (result == Result::success) {
      forget_accesses(*pointer, bytes);
      return result;
    }
    if (result == Result::invalid_value) return fail(result, "0 bytes cannot be allocated");
    return fail(result, text::format("{} bytes were requested, {} of {} are free", bytes, device_.memory().free_bytes(),
                                     device_.memory().total_bytes()));
  });
}

Result HostBackend::memory_free(void* pointer) {
  return enter(Call::memory_free, [&](Lock& lock) {
    const Result rule = check_capture_rules(runtime_, {Call::memory_free, &device_});
    if (rule != Result::success || pointer == nullptr) return rule;
    HostDevice* owner = nullptr;
    for (const auto& device : runtime_.devices)
      if (device->memory().starts_block(pointer)) owner = device.get();
    if (owner == nullptr) return fail(Result::invalid_value, "no block of device memory starts at this address");
    const Result waited = wait(lock, owner->frontier());
    if (waited != Result::success) return waited;
    return owner->memory().free(pointer);
  });
}

Result HostBackend::memory_allocate_async(void** pointer, std::size_t bytes, StreamHandle handle) {
  return enter(Call::memory_allocate_async, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    if (stream->capture != nullptr && stream->capture->state == Capture::State::active)
      return fail(
          Result::not_supported,
          "the host device has no allocation nodes yet; the capture goes on. Allocate before the capture, or from "
          "the caching allocator");
    const Result rule = check_capture_rules(runtime_, {Call::memory_allocate_async, &device_, stream});
    if (rule != Result::success) return rule;
    if (bytes == 0) {
      *pointer = nullptr;
      return Result::success;
    }
    const Result result = stream->device->memory().allocate(pointer, bytes);
    if (result != Result::success) return fail(result, text::format("{} bytes were requested", bytes));
    forget_accesses(*pointer, bytes);
    return Result::success;
  });
}

Result HostBackend::memory_free_async(void* pointer, StreamHandle handle) {
  return enter(Call::memory_free_async, [&](Lock&) {
    HostStream* const stream = find(handle);
    if (stream == nullptr) return bad_handle("stream");
    const Result rule = check_capture_rules(runtime_, {Call::memory_free_async, &device_, stream});
    if (rule != Result::success) return rule;
    if (pointer == nullptr) return Result::success;
    if (stream->capture != nullptr)
      return fail(Result::invalid_value, "memory that was not allocated in the capture cannot be freed in it");
    if (!stream->device->memory().starts_block(pointer))
      return fail(Result::invalid_value, "no block of this device's memory starts at this address");
    submit(*stream, NodeType::memory_free, MemoryFreeNodeParams{pointer});
    return Result::success;
  });
}

Result HostBackend::memory_pool_trim(std::size_t) {
  // Stream-ordered memory returns to the device as soon as it is freed: there is nothing to trim.
  return enter(Call::memory_pool_trim, [&](Lock&) {
    return check_capture_rules(runtime_, {Call::memory_pool_trim, &device_});
  });
}

Result HostBackend::pinned_allocate(void** pointer, std::size_t bytes) {
  return enter(Call::pinned_allocate, [&](Lock&) {
    const Result rule = check_capture_rules(runtime_, {Call::pinned_allocate, &device_});
    if (rule != Result::success) return rule;
    if (bytes == 0) {
      *pointer = nullptr;
      return Result::success;
    }
    void* const memory = ::operator new (bytes, std::align_val_t{DeviceMemory::alignment}, std::nothrow);
    if (memory == nullptr) return fail(Result::out_of_memory, text::format("{} bytes were requested", bytes));
    runtime_.pinned.emplace(reinterpret_cast<std::uintptr_t>(memory), PinnedBlock{bytes, next_id()});
    forget_accesses(memory, bytes);
    *pointer = memory;
    return Result::success;
  });
}

Result HostBackend::pinned_free(void* pointer) {
  return enter(Call::pinned_free, [&](Lock& lock) {
    const Result rule = check_capture_rules(runtime_, {Call::pinned_free, &device_});
    if (rule != Result::success || pointer == nullptr) return rule;
    if (runtime_.pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0)
      return fail(Result::invalid_value, "no block of pinned memory starts at this address");
    const Result waited = wait(lock, device_.frontier());
    ::operator delete (pointer, std::align_val_t{DeviceMemory::alignment});
    return waited;
  });
}

Result HostBackend::pointer_info(const void* pointer, PointerInfo* info) {
  return enter(Call::pointer_info, [&](Lock&) {
    *info = host::pointer_info(runtime_, pointer);
    return Result::success;
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

}  // namespace reprise::backend
