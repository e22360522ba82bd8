// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/Stream.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

#if TORCH_VERSION_MINOR >= 10
#include <ATen/cuda/MemPool.h>
#endif

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

// libtorch 2.8, 2.9 and 2.10. Pinned memory has no pools yet: what a capture pins is not its graph's.

namespace reprise::libtorch::version {

// --- Allocator ----------------------------------------------------------------------------------------------------

using PoolId = decltype(at::cuda::graph_pool_handle());
using c10::cuda::CUDACachingAllocator::TraceEntry;

inline PoolId new_pool_id(bool by_user) {
#if TORCH_VERSION_MINOR >= 10
  return at::cuda::MemPool::graph_pool_handle(by_user);
#else
  return c10::cuda::MemPool::graph_pool_handle(by_user);
#endif
}

/// Returns a snapshot of one pool; {0, 0}: of all.
inline c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(PoolId pool) {
  return c10::cuda::CUDACachingAllocator::snapshot(pool);
}

/// The allocator counts the captures underway by the pools that are filled.
inline void capture_begins(c10::DeviceIndex /*device*/) {}
inline void capture_ended(c10::DeviceIndex /*device*/) {}

inline void begin_pinned_pool(PoolId /*pool*/, const std::function<bool(c10::Stream)>& /*filter*/) {}
inline void end_pinned_pool(PoolId /*pool*/) {}
inline void release_pinned_pool(PoolId /*pool*/) {}

// --- Workspaces of cuBLAS -----------------------------------------------------------------------------------------

using Workspace = at::DataPtr;
using Workspaces = std::map<std::tuple<void*, void*>, Workspace>;

#if TORCH_VERSION_MINOR >= 9
/// cuBLAS and cuBLASLt have a map each.
constexpr std::size_t workspace_maps = 2;
inline auto& workspace_map(std::size_t number) {
  return number == 0 ? at::cuda::cublas_handle_stream_to_workspace() : at::cuda::cublaslt_handle_stream_to_workspace();
}
#else
constexpr std::size_t workspace_maps = 1;
inline auto& workspace_map(std::size_t /*number*/) {
  return at::cuda::cublas_handle_stream_to_workspace();
}
#endif

#if TORCH_VERSION_MINOR >= 10
inline Workspaces& workspaces(std::size_t number) {
  return workspace_map(number).map;
}
inline auto lock_workspaces(std::size_t number) {
  return std::unique_lock(workspace_map(number).mutex);
}
#else
inline Workspaces& workspaces(std::size_t number) {
  return workspace_map(number);
}
/// libtorch uses the map without a mutex: other threads must not call cuBLAS while a capture begins or ends.
inline auto lock_workspaces(std::size_t number) {
  static std::mutex mutexes[workspace_maps];
  return std::unique_lock(mutexes[number]);
}
#endif

inline at::DataPtr& memory_of(Workspace& workspace) {
  return workspace;
}
/// A workspace as `like`, in this memory.
inline Workspace workspace_in(at::DataPtr memory, const Workspace& /*like*/) {
  return memory;
}

}  // namespace reprise::libtorch::version
