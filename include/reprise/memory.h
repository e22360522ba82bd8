// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "reprise/stream.h"

/// \file
/// Device memory: pool ids, the caching allocator, copies and fills.

namespace reprise {

/// The name of a private memory pool. Opaque; two 64-bit numbers as in PyTorch. The default value names no pool.
struct MempoolId {
  std::uint64_t first = 0;   ///< the number of a capture's private pool, else 0
  std::uint64_t second = 0;  ///< the number of an id from graph_pool_handle(), else 0

  explicit operator bool() const noexcept { return first != 0 || second != 0; }    ///< true if it names a pool
  friend auto operator<=>(const MempoolId&, const MempoolId&) noexcept = default;  ///< an arbitrary total order
  /// (Explicit, because nvcc 13.0 declares, but does not define, the one implied by the order.)
  friend bool operator==(const MempoolId&, const MempoolId&) noexcept = default;
};

/// Returns a new id for a pool shared by several captures: pass it to each of them. The pool itself is made on each
/// device at first use.
MempoolId graph_pool_handle();

/// Counts of one pool, or of all pools of an allocator together.
struct PoolStatistics {
  std::uint64_t reserved_bytes = 0;        ///< taken from the driver
  std::uint64_t allocated_bytes = 0;       ///< of that, in blocks that are in use, rounded sizes
  std::uint64_t peak_reserved_bytes = 0;   ///< the highest `reserved_bytes` since reset_peak()
  std::uint64_t peak_allocated_bytes = 0;  ///< the highest `allocated_bytes` since reset_peak()
  std::uint64_t segments = 0;              ///< allocations from the driver
  std::uint64_t allocations = 0;           ///< blocks in use
};

/// A caching allocator of device memory: freed blocks are kept and reused.
///
/// *Sizes.* A request is rounded up to a multiple of 512 bytes. Rounded requests up to 1 MiB are *small* and are cut
/// from segments of 2 MiB; those from there to below 10 MiB are cut from segments of 20 MiB; larger ones get a segment
/// of their own, a multiple of 2 MiB. A small block is split when 512 bytes or more would be left over, a large one
/// when more than 1 MiB would be. Freed neighbours are joined.
///
/// *Streams.* Memory is allocated for a stream and follows its order of work: a freed block is reused at once, without
/// waiting, but only for the same stream. Use by other streams must be declared with record_stream(): reuse is then
/// deferred after the free until the work submitted to those streams by then has completed. Blocks of a destroyed
/// Stream can be used by other streams once the work of that stream has completed.
///
/// *Choice.* The smallest cached block that fits, the lowest address among equals. If none fits, a new segment; if the
/// driver has no memory left, all cached memory that no graph needs is released and the allocation tried again; then
/// OutOfMemoryError.
///
/// *Private pools.* While a stream takes part in a capture, allocations for it from any thread come from the pool of
/// that capture, found by the capture's id; for a stream of another device, from the pool with the same id there.
/// Blocks of a pool are reused within the pool only. A pool lives as long as a graph or an allocation needs it. Its
/// segments are released with the last graph; a segment with live allocations becomes ordinary cached memory once these
/// are freed.
///
/// Thread-safe. One per device, alive until the process ends. Its own driver calls are made in relaxed capture mode and
/// never break a capture.
class CachingAllocator {
 public:
  /// The allocator of a device.
  static CachingAllocator& of(Device device);

  /// Allocates at least `bytes` bytes for work on `stream`, aligned to 512 bytes; returns null for 0 bytes.
  /// \throws OutOfMemoryError if the device has no more; UsageError if the stream is of another device.
  void* allocate(std::size_t bytes, const StreamRef& stream = current_stream());

  /// Frees a block. Null is ignored. Never waits.
  /// \throws UsageError if the block is not from this allocator, or was freed already.
  void deallocate(void* pointer);

  /// Declares that work of another stream uses the block: it is not reused before that work has completed. In a
  /// capture, reuse is deferred until no capture is underway.
  /// \throws UsageError if the block is not in use.
  void record_stream(void* pointer, const StreamRef& stream);

  /// Releases all cached segments that are wholly free to the driver, except those of private pools that a graph needs.
  void empty_cache();

  /// Counts of all pools together.
  PoolStatistics statistics() const;

  /// Counts of one private pool; all zero if it does not exist. The default id means the common pool.
  PoolStatistics statistics(MempoolId pool) const;

  /// Sets the peaks to the current values.
  void reset_peak();

  Device device() const noexcept;

  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  class Impl;
  /// For internal use.
  Impl& impl() noexcept { return *impl_; }
  /// For internal use.
  explicit CachingAllocator(Device device);
  ~CachingAllocator();

 private:
  std::unique_ptr<Impl> impl_;
};

/// Copies bytes in the order of a stream; the direction follows from the addresses (`cudaMemcpyAsync`). In a capture
/// this is a node: each replay reads and writes these addresses again, host memory included. Otherwise pageable host
/// memory may be reused when the call returns, and pinned memory once the copy has completed.
void copy_async(void* destination, const void* source, std::size_t bytes, const StreamRef& stream = current_stream());

/// Sets each of `bytes` bytes in the order of a stream (`cudaMemsetAsync`).
void fill_async(void* destination, unsigned char value, std::size_t bytes, const StreamRef& stream = current_stream());

namespace detail {

[[noreturn]] void buffer_too_large(std::size_t count, std::size_t value_bytes);
void check_buffer_sizes(std::size_t buffer, std::size_t host);
[[noreturn]] void buffer_without_device();
void deallocate_buffer(CachingAllocator& allocator, void* pointer) noexcept;

}  // namespace detail

/// An owned array in device memory, from the caching allocator. Movable; a moved-from Buffer is empty. The values are
/// not initialised. Destroying it frees the memory in the order of the stream it was allocated for.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "device memory holds plain values");

 public:
  Buffer() = default;

  /// Allocates `count` values for work on `stream`.
  /// \throws OutOfMemoryError
  explicit Buffer(std::size_t count, const StreamRef& stream = current_stream()) : size_(count) {
    if (count > SIZE_MAX / sizeof(T)) detail::buffer_too_large(count, sizeof(T));
    allocator_ = &CachingAllocator::of(stream.device());
    data_ = static_cast<T*>(allocator_->allocate(count * sizeof(T), stream));
  }

  /// Copies a host array in the order of `stream`.
  explicit Buffer(std::span<const T> values, const StreamRef& stream = current_stream())
      : Buffer(values.size(), stream) {
    copy_from(values, stream);
  }

  ~Buffer() { reset(); }

  Buffer(Buffer&& other) noexcept
      : allocator_(std::exchange(other.allocator_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}

  /// Frees this object's memory and takes over the other's.
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      allocator_ = std::exchange(other.allocator_, nullptr);
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }

  T* data() const noexcept { return data_; }           ///< the device address; null when empty
  std::size_t size() const noexcept { return size_; }  ///< number of values
  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  bool empty() const noexcept { return size_ == 0; }

  /// The device of the memory.
  /// \throws UsageError for a buffer that was made without memory, or moved from.
  Device device() const {
    if (allocator_ == nullptr) detail::buffer_without_device();
    return allocator_->device();
  }

  /// Copies a host array here, in the order of `stream`; see copy_async().
  /// \throws UsageError if the sizes differ.
  void copy_from(std::span<const T> values, const StreamRef& stream = current_stream()) {
    detail::check_buffer_sizes(size_, values.size());
    copy_async(data_, values.data(), size_bytes(), stream);
  }

  /// Copies this array to the host, in the order of `stream`; see copy_async().
  /// \throws UsageError if the sizes differ.
  void copy_to(std::span<T> values, const StreamRef& stream = current_stream()) const {
    detail::check_buffer_sizes(size_, values.size());
    copy_async(values.data(), data_, size_bytes(), stream);
  }

  /// Sets every byte, in the order of `stream`; see fill_async().
  void fill_bytes(unsigned char value, const StreamRef& stream = current_stream()) {
    fill_async(data_, value, size_bytes(), stream);
  }

  /// Declares that work of another stream uses this memory; see CachingAllocator::record_stream().
  void record_stream(const StreamRef& stream) {
    if (data_ != nullptr) allocator_->record_stream(data_, stream);
  }

  /// Frees the memory now; the buffer is empty afterwards.
  void reset() noexcept {
    if (data_ != nullptr) detail::deallocate_buffer(*allocator_, data_);
    data_ = nullptr;
    size_ = 0;
  }

 private:
  CachingAllocator* allocator_ = nullptr;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace reprise
