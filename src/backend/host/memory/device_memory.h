// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "reprise/error.h"

namespace reprise::backend::host {

/// The memory of one simulated device: a reserved range of addresses.
///
/// First fit, aligned to 512 bytes. Freed memory is filled with `poison_byte`, and so is the beginning of new memory;
/// untouched memory costs nothing. With protection on, the range is inaccessible except while an operation executes
/// (enter, leave); an access by the host ends the process, and prints the address, the block and the stack.
///
/// Thread-safe.
class DeviceMemory {
 public:
  static constexpr unsigned char poison_byte = 0xDB;
  static constexpr std::size_t poisoned_at_first = 64 * 1024;  ///< bytes of new memory
  static constexpr std::size_t alignment = 512;

  struct Block {
    std::byte* base;
    std::size_t bytes;
    std::uint64_t id;  ///< of the allocation, unique in the process
  };

  /// \param device its name, for texts.
  DeviceMemory(std::string device, std::size_t total_bytes, bool protect);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// The name of the device, of any runtime, in whose range the address lies; empty if there is none.
  static std::string owner_of(const void* pointer);

  /// Returns `out_of_memory` when less is free, or the system does not provide it (ulimit -d).
  ErrorCode allocate(void** pointer, std::size_t bytes);
  /// Returns `invalid_value` unless a block starts there.
  ErrorCode free(void* pointer);

  /// As allocate(), of a block that takes no memory until back().
  ErrorCode reserve(void** pointer, std::size_t bytes) { return take(pointer, bytes, false); }
  /// Gives a reserved block its memory, unless it has it. Returns `out_of_memory` when less is free.
  ErrorCode back(void* pointer);
  /// Fills what was used of a block with `poison_byte`.
  void poison(void* pointer) noexcept;

  /// True if a block starts there.
  bool starts_block(const void* pointer) const;
  /// True if the address lies in the device's range, allocated or not.
  bool contains(const void* pointer) const noexcept;
  /// The block that the address lies in.
  std::optional<Block> find(const void* pointer) const;

  std::size_t total_bytes() const noexcept { return total_bytes_; }
  std::size_t free_bytes() const;
  bool protects() const noexcept { return protect_; }

  /// Prints the block of an address, in the fault handler: does not allocate or block.
  void describe_fault(const void* address) const noexcept;

  /// Make protected memory accessible in between. Calls nest, from any threads. enter() returns false, and leave() must
  /// not follow, if the system refuses that.
  bool enter() noexcept;
  void leave() noexcept;

 private:
  struct Range {
    std::size_t bytes = 0;
    std::size_t requested = 0;  // of a block
    std::uint64_t id = 0;       // of a block
    bool backed = true;         // a block takes memory
  };
  // By their offset. A range moves from the one to the other with its node, so that freeing needs no memory.
  using Ranges = std::map<std::size_t, Range>;

  ErrorCode take(void** pointer, std::size_t bytes, bool backed);
  void fill(std::size_t offset, std::size_t bytes) noexcept;
  bool commit(std::size_t end);  // with the mutex held

  const std::string device_;
  const std::size_t total_bytes_;
  const bool protect_;
  std::byte* base_ = nullptr;
  std::size_t range_bytes_ = 0;
  mutable std::mutex mutex_;
  Ranges blocks_;  // rounded sizes
  Ranges holes_;   // neighbours are joined
  std::size_t used_bytes_ = 0;
  std::size_t committed_ = 0;     // bytes from base_ that can be made accessible
  unsigned accessors_ = 0;        // operations that are executing, with protection on
  bool protection_lost_ = false;  // the system refused it once
};

}  // namespace reprise::backend::host
