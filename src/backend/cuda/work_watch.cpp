// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/work_watch.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "backend/error_context.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/work_call.h"
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
  const auto now = captured();
  if (now && driver_.cuGraphGetNodes(now->graph, nullptr, &nodes_before_) != CUDA_SUCCESS) nodes_before_ = 0;
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
  if (!any()) return;
  const bool waits = std::string_view(name).starts_with("cuStreamWaitEvent");
  bool noted = false;
  {
    const std::scoped_lock lock(watches().mutex);
    for (CudaWorkWatch* const watch : watches().all) {
      if (watch->over_ || watch->stream_ != stream ||
          (stream == CU_STREAM_PER_THREAD && watch->thread_ != thread_number()))
        continue;
      const Work work = watch->new_work(waits);
      if (work == Work::none) continue;
      watch->over_ = true;
      if (work == Work::of_another_call) continue;
      watch->call_ = work_call(name, stream);
      noted = true;
    }
  }
  if (!noted) return;
  // Without the lock: finding names takes the loader's, and finding the annotation that of the captures.
  const std::vector<std::string> stack = call_stack();
  const std::string annotation = error_context();
  const std::scoped_lock lock(watches().mutex);
  for (CudaWorkWatch* const watch : watches().all)
    if (watch->call_ && watch->call_->stack.empty() && watch->call_->thread == thread_number()) {
      watch->call_->stack = stack;
      watch->call_->detail = annotation;
    }
} catch (const std::bad_alloc&) {
}

std::optional<CudaWorkWatch::Captured> CudaWorkWatch::captured() const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  Captured now;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;  // without it, the driver refuses the call when an edge is programmatic
  std::size_t count = 0;
  if (driver_.cuStreamGetCaptureInfo(stream_, &status, &id, &now.graph, &nodes, &edges, &count) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return std::nullopt;
  now.last = {nodes, count};
  return now;
}

// A wait adds to the last nodes; work takes their place.
CudaWorkWatch::Work CudaWorkWatch::new_work(bool waits) const {
  const auto now = captured();
  if (!now || (now->last.size() == 1 && now->last.front() == last_)) return Work::none;
  const bool first = waits ? std::ranges::find(now->last, last_) != now->last.end()
                           : now->last.size() == 1 && is_first_behind_last(now->graph, now->last.front());
  return first ? Work::of_this_call : Work::of_another_call;
}

// True if, of what was added since the watch began, nothing precedes the node: else a call that was not seen added it.
bool CudaWorkWatch::is_first_behind_last(CUgraph graph, CUgraphNode node) const {
  std::size_t count = 0;
  if (driver_.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> nodes(count);  // in the order in which they were added
  if (driver_.cuGraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return false;
  const std::span before(nodes.data(), std::min(nodes_before_, nodes.size()));
  if (driver_.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count) != CUDA_SUCCESS) return false;
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> edges(count);
  if (driver_.cuGraphGetEdges(graph, from.data(), to.data(), edges.data(), &count) != CUDA_SUCCESS) return false;
  bool follows_last = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (to[i] != node) continue;
    follows_last = follows_last || from[i] == last_;
    if (std::ranges::find(before, from[i]) == before.end()) return false;
  }
  return follows_last;
}

}  // namespace reprise::backend::cuda
