// SPDX-License-Identifier: Apache-2.0
#include "memory/other_caches.h"

#include <array>
#include <atomic>
#include <cstdlib>

#include "backend/backend.h"
#include "backend/check.h"

namespace reprise::memory {
namespace {

std::array<std::atomic<EmptyCache>, 4> caches{};

}  // namespace

void add_other_cache(EmptyCache empty) noexcept {
  for (auto& place : caches) {
    EmptyCache none = nullptr;
    if (place.compare_exchange_strong(none, empty, std::memory_order_acq_rel)) return;
  }
  std::abort();  // the list is too short: an error of this library
}

void empty_other_caches(const Device& device) noexcept {
  for (const auto& place : caches) {
    const EmptyCache empty = place.load(std::memory_order_acquire);
    if (empty == nullptr) return;
    const backend::RelaxedCaptureMode relaxed(device.backend());
    empty(device);
  }
}

}  // namespace reprise::memory
