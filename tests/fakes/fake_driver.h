// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "backend/cuda/driver_api.h"

namespace reprise::backend::cuda::test {

/// A handle that only has to differ from others.
template <class Handle>
Handle handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

inline CUcontext primary_context_of(CUdevice device) {
  return handle<CUcontext>(0x1000U + static_cast<std::uintptr_t>(device));
}

/// A driver that does nothing but remember its calls, for tests of what the backend calls. One at a time;
/// what is not filled in here is null.
class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const DriverApi& api() const { return api_; }
  DriverApi& api() { return api_; }

  /// The calling thread's contexts, the current one last.
  static std::vector<CUcontext>& contexts();
  /// The calling thread's capture mode.
  static CUstreamCaptureMode& capture_mode();

  static FakeDriver& instance();

  // What the calls below return, and what they were called with.
  CUresult result = CUDA_SUCCESS;         ///< of calls that work in a context
  CUresult retain_result = CUDA_SUCCESS;  ///< of cuDevicePrimaryCtxRetain
  int retained = 0;
  int current_queries = 0;
  int capture_queries = 0;  ///< of cuStreamGetCaptureInfo
  int mode_exchanges = 0;
  std::vector<CUcontext> worked_in;  ///< the context of each call
  CUstreamCaptureMode mode_at_retain = CU_STREAM_CAPTURE_MODE_GLOBAL;

  CUlaunchConfig launched{};
  std::vector<CUlaunchAttribute> launch_attributes;
  unsigned long long instantiate_flags = 0;  ///< of the last executable
  void** launched_extra = nullptr;
  void** node_extra = nullptr;  ///< of the kernel node that is queried
  CUgraphNodeParams added{};
  CUgraphNodeParams changed{};  ///< what the last change of a node's params passed
  int attributes_queried = 0;   ///< of kernel nodes
  struct AddedEdge {
    CUgraphNode from, to;
    int from_port, type;
    friend bool operator==(const AddedEdge&, const AddedEdge&) = default;
  };
  std::vector<AddedEdge> edges = {};
  int edge_calls = 0;
  int failing_edge_call = 0;  // counted from 1
  CUgraphNode destroyed = nullptr;
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> node_attributes;
  CUDA_MEMCPY3D copy{};       ///< of the copy node that is queried
  unsigned pointer_type = 0;  ///< the memory type of every pointer; 0: unregistered
  CUgraphNodeType node_type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUresult attribute_result = CUDA_SUCCESS;
  std::string log;  ///< what the driver wrote since it was last read
  CUstreamCaptureStatus capture_status = CU_STREAM_CAPTURE_STATUS_NONE;  ///< of every stream
  bool breaks_captures = false;                                          ///< a failed call breaks a capture
  std::size_t captured_nodes = 0;
  std::vector<CUgraphNode> nodes = {};       ///< that are captured; without any, there are captured_nodes
  std::vector<CUgraphNode> last_nodes = {};  ///< of what is captured
  std::vector<std::pair<CUgraphNode, CUgraphNode>> captured_edges = {};  ///< from, to

 private:
  void fill_contexts();
  void fill_work();
  void fill_captures();
  void fill_graphs();

  DriverApi api_;
};

}  // namespace reprise::backend::cuda::test
