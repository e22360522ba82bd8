// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "captures/capture.h"
#include "memory/allocator_impl.h"

namespace reprise::memory {

/// To be called before a capture into a pool that others have filled is announced: what they freed while other streams
/// used it is in the pool again, once that use has completed. On all devices of the same runtime.
void return_held_back_blocks(const Device& device) noexcept;

/// The private pools of one capture, and then of its graph: one on each device that the capture allocated on, all with
/// one id.
///
///     filled (in a slot of the capture, made by fill()) -> held (by the graph, which got it from end()) -> closed
///
/// Thread-safe. Lock order: its mutex is taken before an allocator's.
class CapturePools {
 public:
  explicit CapturePools(captures::Capture& capture) : id_(capture.pool()), name_(capture.name()), capture_(&capture) {}
  /// Closes the pools: the memory is released when nothing else needs it.
  ~CapturePools();
  CapturePools(const CapturePools&) = delete;
  CapturePools& operator=(const CapturePools&) = delete;

  /// Makes later allocations for streams of the capture on this device come from its pool. Does nothing if they do
  /// already, or the capture is over.
  /// \throws UsageError if another capture is filling the pool on this device.
  static void fill(CachingAllocator::Impl& allocator, captures::Capture& capture);

  /// The capture fills no pool any more. Returns what its graph must hold as long as anything of it can touch the
  /// memory; null if it filled none, or when called again.
  static std::shared_ptr<CapturePools> end(captures::Capture& capture) noexcept;

 private:
  void add(CachingAllocator::Impl& allocator);
  void end_filling() noexcept;

  const MempoolId id_;
  const std::string name_;      // of the graph
  std::mutex mutex_;            // guards the rest
  captures::Capture* capture_;  // null when it fills no pool any more
  struct Filled {
    CachingAllocator::Impl* allocator;
    std::uint64_t filling;  // of begin_filling()
  };
  std::vector<Filled> filled_;
};

}  // namespace reprise::memory
