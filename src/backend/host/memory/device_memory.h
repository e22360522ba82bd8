// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "reprise/error.h"

namespace reprise::backend::host {

/// The memory of one simulated device: a range of addresses of its own, in which nothing else of the process lies.
///
/// First fit, aligned to 512 bytes. What is freed is filled with `poison_byte`; what was never touched costs nothing.
/// With protection on, the range is inaccessible except while an operation executes (enter, leave), and a touch by the
/// host ends the process with the address, the block and the stack.
///
/// Thread-safe.
class DeviceMemory {
 public:
  static constexpr unsigned char poison_byte = 0xDB;
  static constexpr std::size_t alignment = 512;

  struct Block {
    std::byte* base;
    std::size_t bytes;
    std::uint64_t id;  ///< of the allocation, unique in the process
  };

  DeviceMemory(std::size_t total_bytes, bool protect);
  DeviceMemory(const DeviceMemory&) = delete;  // lives until the process ends, as the device does
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// `out_of_memory` when less than that is left.
  Result allocate(void** pointer, std::size_t bytes);
  /// `invalid_value` unless a block starts there.
  Result free(void* pointer);

  /// Does a block start there?
  bool starts_block(const void* pointer) const;
  /// Does the address lie in the device's range, allocated or not?
  bool contains(const void* pointer) const noexcept;
  /// The block that the address lies in.
  std::optional<Block> find(const void* pointer) const;

  std::size_t total_bytes() const noexcept { return total_bytes_; }
  std::size_t free_bytes() const;
  bool protects() const noexcept { return protect_; }

  /// Prints what is known about an address, for the handler of the fault: no allocation, no blocking.
  void describe_fault(const void* address, bool write, bool write_known) const noexcept;

  /// Between the two calls the memory is accessible, if it is protected. Calls nest, from any threads.
  void enter();
  void leave();

 private:
  struct Asked {
    std::size_t bytes;
    std::uint64_t id;
  };

  void commit(std::size_t end);  // with the mutex held

  const std::size_t total_bytes_;
  const bool protect_;
  std::byte* base_ = nullptr;
  std::size_t range_bytes_ = 0;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> blocks_;  // offset -> rounded size
  std::map<std::size_t, std::size_t> holes_;   // offset -> size; neighbours are joined
  std::map<std::size_t, Asked> asked_;         // offset -> what was asked for
  std::size_t used_bytes_ = 0;
  std::size_t committed_ = 0;  // bytes from base_ that can be made accessible
  unsigned accessors_ = 0;     // operations that are executing, with protection on
};

}  // namespace reprise::backend::host
