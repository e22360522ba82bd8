// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/node_params.h"

// Disabled sets of executables. Where cuGraphNodeSetEnabled disables a memset node, the driver (580.159, CUDA 13.0, on
// an H200) does not order the nodes after it behind those before it: kernels around such a node ran at the same time in
// 29 of 30 launches. Disabled kernels and copies keep the order. So a disabled set stays enabled for the driver, and
// sets one element of memory that nothing reads. docs/capture-rules.md describes it.

namespace reprise::backend::cuda {

CUresult CudaBackend::set_params(CUgraphExec exec, CUgraphNode node, const NodeParams& params) const {
  CUgraphNodeParams wanted = changed_params(node, params);
  return driver_.cuGraphExecNodeSetParams(exec, node, &wanted);
}

// Memory on the device of `destination`: the driver refuses to move a set to another device. Where the driver does not
// know the destination, on this device.
CUresult CudaBackend::unread_memory(const void* destination, void** memory) {
  int device = -1;
  CUpointer_attribute ordinal = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
  void* value = &device;
  CUresult result = driver_.cuPointerGetAttributes(1, &ordinal, &value, to_address(destination));
  const std::vector<Backend*>& backends = cuda_backends();
  if (result != CUDA_SUCCESS || device < 0 || static_cast<std::size_t>(device) >= backends.size()) device = index_;
  *memory = unread_memory_[device];
  if (*memory != nullptr) return CUDA_SUCCESS;
  // In mode relaxed, as an allocation breaks captures in mode global otherwise.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  result = driver_.cuThreadExchangeStreamCaptureMode(&mode);
  if (result != CUDA_SUCCESS) return result;
  Backend& owner = device == index_ ? *this : *backends[static_cast<std::size_t>(device)];
  const Result made = owner.memory_allocate(memory, sizeof(std::uint32_t));
  (void)driver_.cuThreadExchangeStreamCaptureMode(&mode);
  unread_memory_[device] = *memory;
  return made.failed() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult CudaBackend::set_unread_memory(CUgraphExec exec, CUgraphNode node, const MemsetNodeParams& params) {
  void* memory = nullptr;
  if (const CUresult result = unread_memory(params.destination, &memory); result != CUDA_SUCCESS) return result;
  return set_params(exec, node, MemsetNodeParams{memory, params.value, params.element_bytes, 1});
}

CUresult CudaBackend::disable_set(CUgraphExec exec, CUgraphNode node) {
  const std::lock_guard lock(disabled_mutex_);
  const auto known = disabled_sets_.find(exec);
  if (known != disabled_sets_.end() && known->second.contains(node)) return CUDA_SUCCESS;
  NodeParams params;
  CUresult result = node_params(node, CU_GRAPH_NODE_TYPE_MEMSET, &params);
  if (result != CUDA_SUCCESS) return result;
  const auto& set = std::get<MemsetNodeParams>(params);
  result = set_unread_memory(exec, node, set);
  if (result != CUDA_SUCCESS) return result;
  disabled_sets_[exec].emplace(node, set);
  has_disabled_sets_ = true;
  return CUDA_SUCCESS;
}

CUresult CudaBackend::enable_set(CUgraphExec exec, CUgraphNode node) {
  const std::lock_guard lock(disabled_mutex_);
  const auto known = disabled_sets_.find(exec);
  if (known == disabled_sets_.end() || !known->second.contains(node))
    return driver_.cuGraphNodeSetEnabled(exec, node, 1);  // perhaps disabled by a call of the user's
  const CUresult result = set_params(exec, node, known->second.at(node));
  if (result != CUDA_SUCCESS) return result;
  known->second.erase(node);
  if (known->second.empty()) disabled_sets_.erase(known);
  has_disabled_sets_ = !disabled_sets_.empty();
  return CUDA_SUCCESS;
}

bool CudaBackend::is_disabled_set(CUgraphExec exec, CUgraphNode node) {
  if (!has_disabled_sets_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(disabled_mutex_);
  const auto known = disabled_sets_.find(exec);
  return known != disabled_sets_.end() && known->second.contains(node);
}

CUresult CudaBackend::set_params_of_disabled(CUgraphExec exec, CUgraphNode node, const NodeParams& params) {
  const CUresult result = set_params(exec, node, params);  // the driver checks them
  const auto* const set = std::get_if<MemsetNodeParams>(&params);
  if (result != CUDA_SUCCESS || set == nullptr || !is_disabled_set(exec, node)) return result;
  const std::lock_guard lock(disabled_mutex_);
  disabled_sets_.at(exec).at(node) = *set;
  return set_unread_memory(exec, node, *set);
}

CUresult CudaBackend::disable_sets_again(CUgraphExec exec) {
  if (!has_disabled_sets_.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  const std::lock_guard lock(disabled_mutex_);
  const auto known = disabled_sets_.find(exec);
  if (known == disabled_sets_.end()) return CUDA_SUCCESS;
  CUresult first = CUDA_SUCCESS;
  for (auto& [node, set] : known->second) {
    NodeParams params;
    CUresult result = node_params(node, CU_GRAPH_NODE_TYPE_MEMSET, &params);
    if (result == CUDA_SUCCESS) set = std::get<MemsetNodeParams>(params);
    if (result == CUDA_SUCCESS) result = set_unread_memory(exec, node, set);
    if (first == CUDA_SUCCESS) first = result;
  }
  return first;
}

void CudaBackend::forget_disabled_sets(CUgraphExec exec) noexcept {
  if (!has_disabled_sets_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(disabled_mutex_);
  disabled_sets_.erase(exec);
  has_disabled_sets_ = !disabled_sets_.empty();
}

}  // namespace reprise::backend::cuda
