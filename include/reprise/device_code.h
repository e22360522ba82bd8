// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>

#include "reprise/detail/export.h"

/// \file
/// Types and functions for the bodies of kernels: threads, blocks, shared memory, atomics. Kernels themselves:
/// kernel.h.

#if defined(__CUDACC__)
#define REPRISE_KERNEL __host__ __device__
#define REPRISE_KERNEL_ABI kernels_nvcc
#else
/// Marks the call operator of a kernel, and functions that it calls.
#define REPRISE_KERNEL
/// Everything whose body depends on the compiler lives in an inline namespace of its own. Otherwise nvcc's and the host
/// compiler's versions of one template have the same mangled name, the linker keeps either, and a launch vanishes.
#define REPRISE_KERNEL_ABI kernels_host
#endif

namespace reprise {

/// A triple of counts or indices; CUDA's `dim3`.
struct Dim3 {
  unsigned x = 1;  ///< fastest
  unsigned y = 1;  ///< middle
  unsigned z = 1;  ///< slowest

  constexpr Dim3() = default;
  REPRISE_KERNEL constexpr Dim3(unsigned x_, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

namespace detail {

[[noreturn]] REPRISE_EXPORT void shared_memory_exceeded(std::size_t wanted, std::size_t available);

}  // namespace detail

inline namespace REPRISE_KERNEL_ABI {

/// The position of a thread in its launch. Passed to a thread kernel, and to the function of Block::for_each_thread.
struct Thread {
  Dim3 thread_idx;  ///< within the block
  Dim3 block_idx;   ///< within the grid
  Dim3 block_dim;   ///< threads of a block
  Dim3 grid_dim;    ///< blocks of the grid

  /// The number of the thread along x in the whole grid.
  REPRISE_KERNEL std::size_t global_x() const { return std::size_t{block_idx.x} * block_dim.x + thread_idx.x; }
  /// The number of the thread along y in the whole grid.
  REPRISE_KERNEL std::size_t global_y() const { return std::size_t{block_idx.y} * block_dim.y + thread_idx.y; }
  /// The number of the thread along z in the whole grid.
  REPRISE_KERNEL std::size_t global_z() const { return std::size_t{block_idx.z} * block_dim.z + thread_idx.z; }
  /// The number of the thread within its block, x fastest.
  REPRISE_KERNEL unsigned rank() const {
    return (thread_idx.z * block_dim.y + thread_idx.y) * block_dim.x + thread_idx.x;
  }
};

/// A block of threads. Passed to a block kernel, whose body runs once per block: code outside of for_each_thread must
/// be the same for all threads of the block.
class Block {
 public:
  /// For internal use.
  REPRISE_KERNEL Block(Dim3 block_idx, Dim3 block_dim, Dim3 grid_dim, std::byte* shared, unsigned shared_bytes)
      : block_idx_(block_idx),
        block_dim_(block_dim),
        grid_dim_(grid_dim),
        shared_(shared),
        shared_bytes_(shared_bytes) {}

  REPRISE_KERNEL Dim3 block_idx() const { return block_idx_; }  ///< which block of the grid
  REPRISE_KERNEL Dim3 block_dim() const { return block_dim_; }  ///< threads of a block
  REPRISE_KERNEL Dim3 grid_dim() const { return grid_dim_; }    ///< blocks of the grid
  /// Threads of the block.
  REPRISE_KERNEL unsigned size() const { return block_dim_.x * block_dim_.y * block_dim_.z; }

  /// Runs `f(Thread)` for each thread of the block, then passes a barrier: the next phase of the block sees what this
  /// one wrote to shared or global memory.
  template <class F>
  REPRISE_KERNEL void for_each_thread(F&& f) {
#if defined(__CUDA_ARCH__)
    f(Thread{Dim3(threadIdx.x, threadIdx.y, threadIdx.z), block_idx_, block_dim_, grid_dim_});
    __syncthreads();
#else
    for (unsigned z = 0; z < block_dim_.z; ++z)
      for (unsigned y = 0; y < block_dim_.y; ++y)
        for (unsigned x = 0; x < block_dim_.x; ++x) f(Thread{Dim3(x, y, z), block_idx_, block_dim_, grid_dim_});
#endif
  }

  /// Returns an array of `n` values in the block's shared memory, uninitialised, the same for all threads. Successive
  /// calls return successive arrays; together they may take LaunchConfig::shared_bytes, alignment included.
  template <class T>
  REPRISE_KERNEL T* shared(std::size_t n) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                  "shared memory holds plain values");
    static_assert(alignof(T) <= 16, "shared memory is aligned to 16 bytes");
    const std::size_t begin = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    if (n > (shared_bytes_ - (begin < shared_bytes_ ? begin : shared_bytes_)) / sizeof(T)) {
#if defined(__CUDA_ARCH__)
      __trap();
#else
      detail::shared_memory_exceeded(begin + n * sizeof(T), shared_bytes_);
#endif
    }
    used_ = begin + n * sizeof(T);
    return reinterpret_cast<T*>(shared_ + begin);
  }

 private:
  Dim3 block_idx_, block_dim_, grid_dim_;
  std::byte* shared_;
  unsigned shared_bytes_;
  std::size_t used_ = 0;
};

/// Adds to a value in global or shared memory, atomically among all threads of the device; returns the previous value.
template <class T>
REPRISE_KERNEL T atomic_add(T* address, T value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(address, value);
#else
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
#endif
}

}  // namespace REPRISE_KERNEL_ABI
}  // namespace reprise
