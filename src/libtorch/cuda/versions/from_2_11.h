// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/MemPool.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/Stream.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

// libtorch 2.11 and later.

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

/// From 2.13 on the allocator is notified of captures, besides the pools that are filled: until the last one has ended,
/// it records no events for memory that is freed.
inline void capture_begins([[maybe_unused]] c10::DeviceIndex device) {
#if TORCH_VERSION_MINOR >= 13
  c10::cuda::CUDACachingAllocator::markCaptureBegin(device);
#endif
}
inline void capture_ended([[maybe_unused]] c10::DeviceIndex device) {
#if TORCH_VERSION_MINOR >= 13
  c10::cuda::CUDACachingAllocator::markCaptureEnd(device);
#endif
}

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

/// cuBLAS and cuBLASLt have a map each.
constexpr std::size_t workspace_maps = 2;
inline at::cuda::WorkspaceMapWithMutex& workspace_map(std::size_t number) {
  return number == 0 ? at::cuda::cublas_handle_stream_to_workspace() : at::cuda::cublaslt_handle_stream_to_workspace();
}
using Workspaces = decltype(at::cuda::WorkspaceMapWithMutex::map);
using Workspace = Workspaces::mapped_type;  // from 2.13 on a pair: the memory and its size
inline Workspaces& workspaces(std::size_t number) {
  return workspace_map(number).map;
}
inline auto lock_workspaces(std::size_t number) {
  return std::unique_lock(workspace_map(number).mutex);
}

#if TORCH_VERSION_MINOR >= 13
inline at::DataPtr& memory_of(Workspace& workspace) {
  return workspace.first;
}
/// A workspace as `like`, in this memory.
inline Workspace workspace_in(at::DataPtr memory, const Workspace& like) {
  return {std::move(memory), like.second};
}
#else
inline at::DataPtr& memory_of(Workspace& workspace) {
  return workspace;
}
inline Workspace workspace_in(at::DataPtr memory, const Workspace& /*like*/) {
  return memory;
}
#endif

}  // namespace reprise::libtorch::version
