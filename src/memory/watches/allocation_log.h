// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "captures/capture.h"
#include "reprise/detail/export.h"
#include "reprise/memory.h"

namespace reprise::memory {

/// The allocations that one capture made from its pool, in order, also those that were freed again: two captures of the
/// same body get other addresses for the same allocations.
///
/// Opened by the first allocation of the library's own allocators, or before it by FrozenListener::begin(), so that it
/// also lists those of a framework's allocator.
///
/// Thread-safe. Its mutex is locked after an allocator's.
class REPRISE_EXPORT_INTERNAL AllocationLog {
 public:
  /// Attached to the capture until its registration ends.
  static std::shared_ptr<AllocationLog> open(captures::Capture& capture);
  /// Adds an allocation to the log of the capture.
  /// \param is_value Allocation::is_value.
  static void note(captures::Capture& capture, const void* address, std::size_t bytes, bool is_value = false) noexcept;
  /// The same for the capture underway that fills this pool of a framework's allocator, if its log was opened.
  static void note(MempoolId pool, const void* address, std::size_t bytes) noexcept;

  struct Allocation {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    bool is_value = false;  ///< memory of the host with a value that the graph owns, which nothing writes any more
  };
  std::vector<Allocation> allocations() const;
  /// Allocations of a capture until now; none if it has no log.
  static std::vector<Allocation> allocations_of(const captures::Capture& capture);

 private:
  void add(const Allocation& allocation);

  mutable std::mutex mutex_;  // guards the rest
  std::vector<Allocation> allocations_;
};

}  // namespace reprise::memory
