// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/detail/public_call.h"
#include "reprise/stream.h"

/// \file
/// Memory: pool ids, the caching allocator, copies and fills, stream-ordered memory, arrays on the device and on the
/// host.

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
REPRISE_EXPORT MempoolId graph_pool_handle();

/// Counts of one pool, or of all pools of an allocator together.
struct PoolStatistics {
  std::uint64_t reserved_bytes = 0;        ///< taken from the driver
  std::uint64_t allocated_bytes = 0;       ///< of that, in blocks that are in use, rounded sizes
  std::uint64_t peak_reserved_bytes = 0;   ///< the highest `reserved_bytes` since reset_peak()
  std::uint64_t peak_allocated_bytes = 0;  ///< the highest `allocated_bytes` since reset_peak()
  std::uint64_t segments = 0;              ///< allocations from the driver
  std::uint64_t allocations = 0;           ///< blocks in use
  /// GraphOptions::name of each graph that holds the private pool, empty for a graph without a name. Only in
  /// CachingAllocator::statistics(MempoolId).
  std::vector<std::string> graphs = {};
};

/// A caching allocator of device memory: freed blocks are kept and reused.
///
/// *Sizes.* A request is rounded up to a multiple of 512 bytes. Rounded requests up to 1 MiB are *small* and are cut
/// from segments of 2 MiB; those from there to below 10 MiB are cut from segments of 20 MiB; larger ones get a segment
/// of their own, a multiple of 2 MiB. A small block is split when 512 bytes or more would be left over, a large one
/// when more than 1 MiB would be. Freed neighbours are joined.
///
/// *Streams.* Memory is allocated for a stream and follows its order of work: a freed block is reused at once, without
/// waiting, but only for the same stream (the per-thread default stream is another one on each thread). Use by other
/// streams must be declared with record_stream(): reuse is then deferred after the free until the work submitted to
/// those streams by then has completed. Blocks of a destroyed Stream can be used by other streams once the work of that
/// stream has completed.
///
/// *Choice.* The smallest cached block that fits, the lowest address among equals. If none fits, a new segment; if the
/// driver has no memory left, all cached memory that no graph needs is released and the allocation tried again; then
/// OutOfMemoryError.
///
/// *Private pools.* While a stream takes part in a capture, allocations for it from any thread come from the pool of
/// that capture, found by the capture's id; for a stream of another device, from the pool with the same id there.
/// Blocks of a pool are reused within the pool only. A pool lives as long as a graph or an allocation needs it. Its
/// segments are released with the last graph; those that the last capture into the pool added, with the graph of that
/// capture. A segment with live allocations becomes ordinary cached memory once these are freed and no graph needs the
/// pool. The current stream belongs to a thread: on another thread pass the stream, or make it current with
/// StreamGuard, or the memory comes from the common pool and the graph does not keep it.
///
/// Thread-safe. One per device, alive as long as the device. Its own driver calls are made in relaxed capture mode and
/// never break a capture.
class REPRISE_EXPORT CachingAllocator {
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
  /// capture, reuse is deferred until no capture is underway. The stream must exist until the block is freed; a Stream
  /// of this library may end earlier. CUDA does not define what a query of a destroyed stream does; a host device
  /// reports it, and the block is held until empty_cache(), or the next scope of a capture, has waited for the device.
  /// \throws UsageError if the block is not in use; if the stream is the per-thread default stream, for whose work
  ///         other threads cannot wait, unless the block was allocated for it on this thread.
  void record_stream(void* pointer, const StreamRef& stream);

  /// Releases all cached segments that are wholly free to the driver, except those of private pools that a graph needs.
  void empty_cache();

  /// Counts of all pools together.
  PoolStatistics statistics() const;

  /// Counts of one private pool; all zero if it does not exist. The default id means the common pool.
  PoolStatistics statistics(MempoolId pool) const;

  /// Sets the peaks to the current values.
  void reset_peak();

  Device device() const noexcept { return device_; }

  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  class Impl;
  /// For internal use.
  Impl& impl() noexcept { return *impl_; }
  /// For internal use.
  explicit CachingAllocator(Device device);
  ~CachingAllocator();

 private:
  const Device device_;
  std::unique_ptr<Impl> impl_;
};

/// Copies bytes in the order of a stream; the direction follows from the addresses (`cudaMemcpyAsync`). In a capture
/// this is a node: each replay reads and writes these addresses again, host memory included. Otherwise pageable host
/// memory may be reused when the call returns, and pinned memory once the copy has completed.
REPRISE_EXPORT void copy_async(void* destination, const void* source, std::size_t bytes,
                               const StreamRef& stream = current_stream());

/// Sets each of `bytes` bytes in the order of a stream (`cudaMemsetAsync`).
REPRISE_EXPORT void fill_async(void* destination, unsigned char value, std::size_t bytes,
                               const StreamRef& stream = current_stream());

/// Allocates device memory in the order of a stream (`cudaMallocAsync`): for work that follows on it. The memory comes
/// from the driver's stream-ordered pool, not from the caching allocator.
///
/// In a capture this is a node of the graph. The address is the same in every replay; the memory is there from this
/// node on, until the node that free_async() makes. What the capture does not free, a replay leaves allocated for work
/// that follows it. That is freed by free_async(), after the capture or in that of another graph, and else by the next
/// replay, or by a call of the library when the graph has ended and its last replay is over: `auto_free_on_launch` in
/// GraphOptions::instantiate_flags. Without that flag a replay is refused with 1 while it is allocated. It outlives the
/// graph without that flag, and once the program has freed it by free_async() after the capture or in that of another
/// graph; GraphMemory::left_by_ended_bytes lists it then. A graph with such nodes has one executable at a time
/// (CUDAGraph::instantiate() destroys the one before), and can neither be cloned nor be a child graph.
///
/// The end of a graph frees what its last replay left, behind that replay and behind no other work: keep the graph
/// until work that follows is over, on other streams as well, or free the memory by free_async() on its stream.
/// \param bytes the size; for 0 nothing is allocated, and the result is null.
/// \param stream the stream to allocate on; in a capture, any stream that takes part.
/// \returns the address, aligned to 256 bytes.
/// \throws OutOfMemoryError if the device has no more, also after the caching allocator has released what is cached. In
///         a capture only if there are no addresses left: a replay without memory is a BackendError with 2.
/// \throws UsageError in the capture of a conditional node's body, which can have no such nodes; the capture continues.
REPRISE_EXPORT void* allocate_async(std::size_t bytes, const StreamRef& stream = current_stream());

/// Frees memory of allocate_async() in the order of a stream (`cudaFreeAsync`): work that was submitted to it before
/// may still use it. In a capture this is a node, for memory that an allocation node of this or another graph
/// allocates. Null is ignored.
/// \throws UsageError if the memory is of the caching allocator, or the end of its graph has freed it; in a capture of
///         a conditional node's body. A capture continues.
/// \throws BackendError with 1 if the memory was not allocated by allocate_async(), or was freed already; in a capture
///         also if no allocation node allocates it; after a capture also if its graph frees it, or no replay has
///         allocated it. A capture continues.
REPRISE_EXPORT void free_async(void* pointer, const StreamRef& stream = current_stream());

namespace detail {

[[noreturn]] REPRISE_EXPORT void buffer_too_large(std::size_t count, std::size_t value_bytes);
REPRISE_EXPORT void check_buffer_sizes(std::size_t buffer, std::size_t host);
[[noreturn]] REPRISE_EXPORT void buffer_without_device();
/// The alignment of memory of CachingAllocator and of HostBuffer, in bytes.
inline constexpr std::size_t memory_alignment = 512;
REPRISE_EXPORT void deallocate_buffer(CachingAllocator& allocator, void* pointer) noexcept;
REPRISE_EXPORT void* allocate_pinned(Device device, std::size_t bytes);
REPRISE_EXPORT void free_pinned(Device device, void* pointer) noexcept;

}  // namespace detail

/// An owned array in device memory, from the caching allocator. Movable; a moved-from Buffer is empty. The values are
/// not initialised. Destroying it frees the memory in the order of the stream it was allocated for.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "device memory holds plain values");
  static_assert(alignof(T) <= detail::memory_alignment, "memory is aligned to 512 bytes");

 public:
  Buffer() = default;

  /// Allocates `count` values for work on `stream`.
  /// \throws OutOfMemoryError
  explicit Buffer(std::size_t count, const StreamRef& stream = current_stream()) : size_(count) {
    const detail::PublicCall call("Buffer");
    if (count > SIZE_MAX / sizeof(T)) detail::buffer_too_large(count, sizeof(T));
    allocator_ = &CachingAllocator::of(stream.device());
    data_ = static_cast<T*>(allocator_->allocate(count * sizeof(T), stream));
  }

  /// Copies a host array in the order of `stream`. In a capture each replay copies it again, as with write_async(): it
  /// must exist as long as the graph.
  explicit Buffer(std::span<const T> values, const StreamRef& stream = current_stream())
      : Buffer(values.size(), stream) {
    const detail::PublicCall call("Buffer");
    write_async(values, stream);
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

  /// Copies a host array here, after prior work on `stream`, and waits until that is done.
  /// \throws UsageError if the sizes differ; BackendError with 900 if the stream is capturing, which invalidates the
  ///         capture: there, use write_async().
  void write(std::span<const T> values, const StreamRef& stream) {
    const detail::PublicCall call("Buffer::write");
    write_async(values, stream);
    stream.synchronize();
  }
  /// As above, on the current stream of the buffer's device; so below.
  void write(std::span<const T> values) { write(values, stream_here()); }

  /// Returns a copy of this array, made after prior work on `stream`; waits until that is done.
  /// \throws BackendError with 900 as write(); there, use read_async().
  std::vector<T> read(const StreamRef& stream) const {
    std::vector<T> values(size_);
    read(values, stream);
    return values;
  }
  std::vector<T> read() const { return read(stream_here()); }
  /// As above, into `values`.
  /// \throws UsageError if the sizes differ.
  void read(std::span<T> values, const StreamRef& stream) const {
    const detail::PublicCall call("Buffer::read");
    read_async(values, stream);
    stream.synchronize();
  }
  void read(std::span<T> values) const { read(values, stream_here()); }

  /// Copies a host array here, in the order of `stream`, without waiting; see copy_async(). In a capture each replay
  /// copies it again.
  /// \throws UsageError if the sizes differ.
  void write_async(std::span<const T> values, const StreamRef& stream) {
    const detail::PublicCall call("Buffer::write_async");
    detail::check_buffer_sizes(size_, values.size());
    copy_async(data_, values.data(), size_bytes(), stream);
  }
  void write_async(std::span<const T> values) { write_async(values, stream_here()); }

  /// Copies this array to the host, in the order of `stream`, without waiting; see copy_async().
  /// \throws UsageError if the sizes differ.
  void read_async(std::span<T> values, const StreamRef& stream) const {
    const detail::PublicCall call("Buffer::read_async");
    detail::check_buffer_sizes(size_, values.size());
    copy_async(values.data(), data_, size_bytes(), stream);
  }
  void read_async(std::span<T> values) const { read_async(values, stream_here()); }

  /// Sets every byte, in the order of `stream`; see fill_async().
  void fill_bytes_async(unsigned char value, const StreamRef& stream) {
    const detail::PublicCall call("Buffer::fill_bytes_async");
    fill_async(data_, value, size_bytes(), stream);
  }
  void fill_bytes_async(unsigned char value) { fill_bytes_async(value, stream_here()); }

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
  StreamRef stream_here() const {
    return allocator_ != nullptr ? current_stream(allocator_->device()) : current_stream();
  }

  CachingAllocator* allocator_ = nullptr;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// An owned array in host memory that a device copies from and to directly: pinned memory on CUDA (`cuMemHostAlloc`),
/// ordinary memory on the host device. Copies of it do not block the host, and can be captured. Movable; a moved-from
/// HostBuffer is empty. The values are zero at first.
///
/// Work that uses it, and replays of graphs that captured such work, must be over before it is destroyed: that waits
/// for no stream, although the runtime may wait for the device. Allocating and freeing take microseconds to
/// milliseconds, so keep one rather than make one per iteration. Both are allowed in a capture.
template <class T>
class HostBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "device memory holds plain values");
  static_assert(alignof(T) <= detail::memory_alignment, "memory is aligned to 512 bytes");

 public:
  HostBuffer() = default;

  /// Allocates `count` values for copies from and to `device`.
  /// \throws BackendError with 2 if there is no memory.
  explicit HostBuffer(std::size_t count, Device device = current_device()) : device_(device), size_(count) {
    const detail::PublicCall call("HostBuffer");
    if (count > SIZE_MAX / sizeof(T)) detail::buffer_too_large(count, sizeof(T));
    if (count != 0) data_ = static_cast<T*>(detail::allocate_pinned(device, count * sizeof(T)));
    std::uninitialized_value_construct_n(data_, count);
  }

  /// Copies values.
  explicit HostBuffer(std::span<const T> values, Device device = current_device()) : HostBuffer(values.size(), device) {
    std::copy(values.begin(), values.end(), data_);
  }

  ~HostBuffer() {
    if (data_ != nullptr) detail::free_pinned(*device_, data_);
  }

  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  /// Frees this object's memory and takes over the other's.
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    HostBuffer taken(std::move(other));
    swap(taken);
    return *this;
  }

  T* data() noexcept { return data_; }                 ///< the address, for host and device; null when empty
  const T* data() const noexcept { return data_; }     ///< the address, for host and device; null when empty
  std::size_t size() const noexcept { return size_; }  ///< number of values
  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  bool empty() const noexcept { return size_ == 0; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  void swap(HostBuffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  std::optional<Device> device_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace reprise
