// SPDX-License-Identifier: Apache-2.0
#include "memory/watches/allocation_log.h"

#include "captures/registry.h"
#include "reprise/error.h"

namespace reprise::memory {
namespace {

constinit captures::Slot<AllocationLog> log_of;

}  // namespace

std::shared_ptr<AllocationLog> AllocationLog::open(captures::Capture& capture) {
  auto log = std::make_shared<AllocationLog>();
  capture.attach(log_of, log);
  return log;
}

void AllocationLog::note(captures::Capture& capture, const void* address, std::size_t bytes, bool is_value) noexcept
    try {
  if (const auto log = capture.get_or_attach(log_of))
    log->add({reinterpret_cast<std::uintptr_t>(address), bytes, is_value});
} catch (...) {
  warn("There was no memory for the log of a capture's allocations; addresses may be named as differences.");
}

void AllocationLog::note(MempoolId pool, const void* address, std::size_t bytes) noexcept {
  captures::for_each([&](captures::Capture& capture) {
    if (capture.pool() == pool && capture.get(log_of) != nullptr) note(capture, address, bytes);
  });
}

void AllocationLog::add(const Allocation& allocation) {
  const std::lock_guard lock(mutex_);
  allocations_.push_back(allocation);
}

std::vector<AllocationLog::Allocation> AllocationLog::allocations() const {
  const std::lock_guard lock(mutex_);
  return allocations_;
}

std::vector<AllocationLog::Allocation> AllocationLog::allocations_of(const captures::Capture& capture) {
  const auto log = capture.get(log_of);
  return log != nullptr ? log->allocations() : std::vector<Allocation>();
}

}  // namespace reprise::memory
