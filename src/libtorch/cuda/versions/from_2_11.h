// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/MemPool.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/Stream.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "libtorch/cuda/versions/draws_of_one_capture.h"

// libtorch 2.11.

namespace reprise::libtorch::version {

// --- Allocator ----------------------------------------------------------------------------------------------------

using PoolId = c10::MempoolId_t;
using c10::CachingDeviceAllocator::TraceEntry;

inline PoolId new_pool_id(bool by_user) {
  return at::cuda::MemPool::graph_pool_handle(by_user);
}

/// Returns a snapshot of one pool; {0, 0}: of all.
inline c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(PoolId pool) {
  return c10::cuda::CUDACachingAllocator::snapshot(pool, /*include_traces=*/false);
}

/// The allocator counts the captures underway by the pools that are filled.
inline void capture_begins(c10::DeviceIndex /*device*/) {}
inline void capture_ended(c10::DeviceIndex /*device*/) {}

inline void begin_pinned_pool(PoolId pool, std::function<bool(c10::Stream)> filter) {
  at::getHostAllocator(at::kCUDA)->begin_allocate_to_pool(pool, std::move(filter));
}
inline void end_pinned_pool(PoolId pool) {
  at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool);
}
inline void release_pinned_pool(PoolId pool) {
  at::getHostAllocator(at::kCUDA)->release_pool(pool);
}

// --- Workspaces of cuBLAS -----------------------------------------------------------------------------------------

using Workspace = at::DataPtr;
using Workspaces = std::map<std::tuple<void*, void*>, Workspace>;

/// cuBLAS and cuBLASLt have a map each.
constexpr std::size_t workspace_maps = 2;
inline at::cuda::WorkspaceMapWithMutex& workspace_map(std::size_t number) {
  return number == 0 ? at::cuda::cublas_handle_stream_to_workspace() : at::cuda::cublaslt_handle_stream_to_workspace();
}
inline Workspaces& workspaces(std::size_t number) {
  return workspace_map(number).map;
}
inline auto lock_workspaces(std::size_t number) {
  return std::unique_lock(workspace_map(number).mutex);
}

inline at::DataPtr& memory_of(Workspace& workspace) {
  return workspace;
}
/// A workspace as `like`, in this memory.
inline Workspace workspace_in(at::DataPtr memory, const Workspace& /*like*/) {
  return memory;
}

}  // namespace reprise::libtorch::version
