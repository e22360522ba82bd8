// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/objects/tracked_stream.h"
#include "captures/edges.h"
#include "memory/allocator_impl.h"

// Memory of destroyed streams.
//
// Destroying a stream does not wait for its work, and the next stream may get the same handle. So the blocks of the
// default pool are renamed to a tag that no stream has, and an event marks the end of the old stream's work; when it is
// reached, whole segments that are free are taken over by whichever stream needs one.
//
// Likewise the blocks of a private pool, until the end of the capture that fills it: the segments are taken over by
// streams that come after the last nodes of the old one. Then the blocks have the handle again: graphs that share a
// pool are replayed one after another anyway, so a new stream with the old handle may use them. A stream that leaves
// the body of a conditional node leaves its blocks behind in the same way.

namespace reprise {

using backend::Call;
using backend::Checked;
using backend::RelaxedCaptureMode;
using backend::warn_on_error;
using backend::WarnOnError;
using memory::BlockState;
using memory::MemoryBlock;
using memory::Pool;
using memory::Request;

void CachingAllocator::Impl::stream_ends(const StreamRef& stream) noexcept {
  try {
    const Lock lock(mutex_);
    // A program may make and destroy streams all the time, and allocate nothing.
    if (!held_back_.empty()) poll_held_back();
    std::vector<Pool*> pools;
    blocks_.for_each([&](MemoryBlock* block) {
      const bool in_use = block->pool == &default_pool_ || block->pool->filled_by != nullptr;
      if (in_use && StreamRef(device_, block->stream) == stream && std::ranges::count(pools, block->pool) == 0)
        pools.push_back(block->pool);
      held_back_.stream_ends(block, stream);
    });
    held_back_.stream_ends(stream);
    if (pools.empty()) return;
    forget_ended_streams();
    for (Pool* const pool : pools) stream_ends(stream, *pool);
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void CachingAllocator::Impl::stream_ends(const StreamRef& stream, Pool& pool) {
  auto ended = std::make_unique<EndedStream>(EndedStream{&pool});
  backend::Backend& backend = device_.backend();
  if (pool.is_private()) {
    ended->handle = stream.native();
    backend::CaptureInfo info;
    if (!backend.stream_capture_info(stream.native(), &info).failed()) {
      ended->graph = info.graph;
      ended->last.assign(info.dependencies.begin(), info.dependencies.end());
    }
  } else {
    // On a capturing stream an event would never be reached. Then other streams never get the memory, and it goes back
    // to the driver, which waits for all work.
    if (backend::may_record(stream)) ended->event = held_back_.take_event(backend);
    if (ended->event != nullptr &&
        !WarnOnError(backend).event_record(ended->event, stream.native(), backend::EventUseFlags::ordering))
      held_back_.return_event(backend, std::exchange(ended->event, nullptr));
  }
  retag_blocks(stream.native(), std::move(ended));
}

void CachingAllocator::Impl::leave_blocks(const StreamRef& stream, Pool& pool) {
  retag_blocks(stream.native(), std::make_unique<EndedStream>(EndedStream{.pool = &pool, .handle = stream.native()}));
}

void CachingAllocator::Impl::retag_blocks(StreamHandle from, std::unique_ptr<EndedStream> ended) {
  ended_streams_.push_back(std::move(ended));
  EndedStream& to = *ended_streams_.back();
  retag_blocks(*to.pool, from, to.tag());
}

void CachingAllocator::Impl::retag_blocks(Pool& pool, StreamHandle from, StreamHandle to) {
  blocks_.for_each([&](MemoryBlock* block) {
    if (block->stream != from || block->pool != &pool) return;
    // A set is ordered by the stream.
    memory::FreeSet& set = pool.blocks(block->small);
    const bool cached = block->state == BlockState::cached;
    if (cached) set.erase(block);
    block->stream = to;
    if (cached) set.insert(block);
  });
}

void CachingAllocator::Impl::give_handles_back(Pool& pool) {
  for (const std::unique_ptr<EndedStream>& ended : ended_streams_)
    if (ended->pool == &pool) retag_blocks(pool, ended->tag(), ended->handle);
  std::erase_if(ended_streams_, [&](const std::unique_ptr<EndedStream>& ended) { return ended->pool == &pool; });
}

namespace {

/// The nodes that are complete when the next node of a stream begins, in the graph that it captures.
class CompletedNodes {
 public:
  explicit CompletedNodes(const StreamRef& stream) {
    const backend::CaptureInfo info = backend::capture_info(stream);
    graph_ = info.graph;
    if (graph_ == nullptr) return;
    // A programmatic edge lets a node begin before the one that it comes from is complete.
    std::vector<GraphNodeHandle> last;
    for (std::size_t i = 0; i < info.dependencies.size(); ++i)
      if (info.edges.empty() || info.edges[i] == EdgeData{}) last.push_back(info.dependencies[i]);
    std::vector<backend::Edge> edges = Checked(stream.device().backend()).edges_of(graph_);
    std::erase_if(edges, [](const backend::Edge& edge) { return edge.data != EdgeData{}; });
    nodes_ = captures::with_nodes_before(edges, std::move(last));
  }

  bool contain(GraphHandle graph, const std::vector<GraphNodeHandle>& nodes) const {
    return graph == graph_ && std::ranges::all_of(nodes, [&](GraphNodeHandle node) { return nodes_.contains(node); });
  }

 private:
  GraphHandle graph_ = nullptr;
  std::unordered_set<GraphNodeHandle> nodes_;
};

}  // namespace

bool CachingAllocator::Impl::is_done(EndedStream& ended) {
  if (!ended.done && ended.event != nullptr) {
    backend::Backend& backend = device_.backend();
    const RelaxedCaptureMode relaxed(backend);
    const backend::Result result = backend.event_query(ended.event);
    if (result == ErrorCode::not_ready) return false;
    held_back_.return_event(backend, std::exchange(ended.event, nullptr));
    ended.done = warn_on_error(backend, Call::event_query, result);
  }
  return ended.done;
}

// A whole segment of a destroyed stream whose work comes before that of `stream`, which owns it now; null if there is
// none.
MemoryBlock* CachingAllocator::Impl::adopt(Pool& pool, const Request& request, StreamHandle stream) {
  std::optional<CompletedNodes> completed;
  for (const std::unique_ptr<EndedStream>& ended : ended_streams_) {
    if (ended->pool != &pool || (!pool.is_private() && !is_done(*ended))) continue;
    memory::FreeSet& blocks = pool.blocks(request.small);
    MemoryBlock* const block = blocks.whole_segment({ended->tag(), request.bytes});
    if (block == nullptr) continue;
    if (pool.is_private()) {
      if (ended->graph == nullptr || !memory::is_stream(stream)) continue;
      if (!completed) completed.emplace(StreamRef(device_, stream));
      if (!completed->contain(ended->graph, ended->last)) continue;
    }
    blocks.erase(block);
    block->stream = stream;
    return block;
  }
  return nullptr;
}

// Drops those that no block belongs to any more.
void CachingAllocator::Impl::forget_ended_streams() {
  std::vector<StreamHandle> tags;
  blocks_.for_each([&](MemoryBlock* block) { tags.push_back(block->stream); });
  std::sort(tags.begin(), tags.end());
  std::erase_if(ended_streams_, [&](const std::unique_ptr<EndedStream>& ended) {
    if (std::binary_search(tags.begin(), tags.end(), ended->tag())) return false;
    if (ended->event != nullptr) held_back_.return_event(device_.backend(), ended->event);
    return true;
  });
}

}  // namespace reprise
