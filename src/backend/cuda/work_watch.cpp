// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/work_watch.h"

#include <algorithm>
#include <new>
#include <span>
#include <vector>

#include "backend/rules/call_stack.h"
#include "backend/rules/reported_call.h"
#include "support/immortal.h"

namespace reprise::backend::cuda {
namespace {

struct Watches {
  std::mutex mutex;
  std::vector<CudaWorkWatch*> all;
};

Watches& watches() {
  static support::Immortal<Watches> instance;
  return *instance;
}

}  // namespace

CudaWorkWatch::CudaWorkWatch(const DriverApi& driver, CUstream stream, CUgraphNode last)
    : driver_(driver), stream_(stream), last_(last), thread_(thread_number()) {
  const std::scoped_lock lock(watches().mutex);
  watches().all.push_back(this);
  count_.fetch_add(1, std::memory_order_relaxed);
}

CudaWorkWatch::~CudaWorkWatch() {
  const std::scoped_lock lock(watches().mutex);
  std::erase(watches().all, this);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

std::optional<CaptureFindings::ObservedCall> CudaWorkWatch::first() const {
  const std::scoped_lock lock(watches().mutex);
  return call_;
}

void CudaWorkWatch::note(const char* name, CUstream stream) noexcept try {
  bool noted = false;
  {
    const std::scoped_lock lock(watches().mutex);
    for (CudaWorkWatch* const watch : watches().all) {
      if (watch->over_ || watch->stream_ != stream ||
          (stream == CU_STREAM_PER_THREAD && watch->thread_ != thread_number()))
        continue;
      const Work work = watch->new_work();
      if (work == Work::none) continue;
      watch->over_ = true;
      if (work == Work::of_another_call) continue;
      watch->call_ = reported_call(name, ErrorCode::success, nullptr);
      watch->call_->stream = stream;
      noted = true;
    }
  }
  if (!noted) return;
  // Without the lock: finding names takes the loader's.
  const std::vector<std::string> stack = call_stack();
  const std::scoped_lock lock(watches().mutex);
  for (CudaWorkWatch* const watch : watches().all)
    if (watch->call_ && watch->call_->stack.empty() && watch->call_->thread == thread_number())
      watch->call_->stack = stack;
} catch (const std::bad_alloc&) {
}

CudaWorkWatch::Work CudaWorkWatch::new_work() const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;  // without it, the driver refuses the call when an edge is programmatic
  std::size_t count = 0;
  if (driver_.cuStreamGetCaptureInfo(stream_, &status, &id, &graph, &nodes, &edges, &count) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return Work::none;
  const std::span now(nodes, count);
  if (count == 1 && now.front() == last_) return Work::none;
  // A wait for an event adds to the last nodes; work takes their place.
  if (std::ranges::find(now, last_) != now.end()) return Work::of_this_call;
  return count == 1 && is_alone_behind_last(graph, now.front()) ? Work::of_this_call : Work::of_another_call;
}

// False if calls that were not seen added nodes, or edges, before this node.
bool CudaWorkWatch::is_alone_behind_last(CUgraph graph, CUgraphNode node) const {
  std::size_t count = 0;
  if (driver_.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> edges(count);
  if (driver_.cuGraphGetEdges(graph, from.data(), to.data(), edges.data(), &count) != CUDA_SUCCESS) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (to[i] == node && from[i] != last_) return false;
  return true;
}

}  // namespace reprise::backend::cuda
