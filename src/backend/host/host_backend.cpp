// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_backend.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <new>

#include "support/immortal.h"
#include "text/format.h"

// The device itself.

namespace reprise::backend::host {

Result HostBackend::refuse_caller() const {
  if (support::forked()) [[unlikely]]
    return fail(ErrorCode::not_initialized,
                "this process is a child that fork() made of a process that had used a device, and has none of its "
                "threads; as with CUDA, fork before the first use of a device, or start another program (exec) in the "
                "child");
  if (executing())
    return fail(ErrorCode::not_permitted,
                "host functions, kernels and user objects' destructors must not call the device runtime");
  if (device_.has_sticky_error())
    return fail(
        ErrorCode::launch_failure,
        text::format("an operation of this device failed earlier: {}. As on CUDA, the device stays unusable until "
                     "{} ends",
                     device_.sticky_error(), of_simulator() ? "its HostSimulator" : "the process"));
  return ErrorCode::success;
}

Result HostBackend::next_failure(Call call) const {
  const auto happened = runtime_.failures.next(call, *this);
  return happened ? fail(happened->code, happened->detail) : Result(ErrorCode::success);
}

// The call has taken effect: without memory, the report lacks it.
void HostBackend::finish(Lock& lock, Call call, const Result& result) const noexcept try {
  if (!lock.owns_lock()) lock.lock();  // after a wait
  if (result.failed() && runtime_.watchers > 0) note_refused(runtime_, call, result);
  const bool incomplete = lacks_stacks(runtime_);
  lock.unlock();
  if (incomplete) add_stacks(runtime_);
} catch (const std::exception&) {
  warn("There was no memory for what the report of a capture says of a call.");
}

Result HostBackend::lacks_resources() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ErrorCode::out_of_memory;
  } catch (const NoWorker& error) {
    return {ErrorCode::operating_system, error.what()};
  }
}

Result HostBackend::no_such(const char* what, ErrorCode code) {
  return fail(code, text::format("there is no such {}: it was never made, or was destroyed", what));
}

Result HostBackend::wait(Lock& lock, std::span<const OperationRef> operations) const {
  // Work submitted by other threads during the wait counts as ordered, too: races may be missed, but none is invented.
  host_waited(operations);
  lock.unlock();
  for (const OperationRef& operation : operations) runtime_.executor.wait(operation);
  return device_.has_sticky_error() ? refuse_caller() : ErrorCode::success;
}

Result HostBackend::query(Lock& lock, std::span<const OperationRef> operations) const {
  const auto all_done = [&] {
    return std::all_of(operations.begin(), operations.end(), [](const OperationRef& each) { return each.done(); });
  };
  if (!all_done()) {
    if (!runtime_.executor.runs_by_steps()) {
      runtime_.executor.polled();
      return ErrorCode::not_ready;
    }
    make_progress(lock);
    if (device_.has_sticky_error()) return refuse_caller();
    if (!all_done()) return ErrorCode::not_ready;
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

Result HostBackend::device_synchronize() {
  return enter(Call::device_synchronize, [&](Lock& lock) -> Result {
    if (Result rule = check(Call::device_synchronize); rule.failed()) return rule;
    return wait(lock, device_.frontier());
  });
}

Result HostBackend::memory_info(MemoryInfo* info) {
  return enter(Call::memory_info, [&](Lock& lock) -> Result {
    make_progress(lock);  // operations may free memory
    *info = {device_.memory().free_bytes(), device_.memory().total_bytes()};
    return ErrorCode::success;
  });
}

Result HostBackend::stream_priority_range(int* least, int* greatest) {
  return enter(Call::stream_priority_range, [&](Lock&) -> Result {
    // As on an H200. Priorities are stored and reported; the simulated streams share their workers evenly.
    *least = 0;
    *greatest = -5;
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
      found = known->second->device->backend;
  });
  return found;
}

}  // namespace reprise::backend
