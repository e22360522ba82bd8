// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/objects/tracked_stream.h"
#include "memory/allocator_impl.h"

// Memory of destroyed streams.
//
// Destroying a stream does not wait for its work, and the next stream may get the same handle. So the blocks of the
// default pool are renamed to a tag that no stream has, and an event marks the end of the old stream's work; when it is
// reached, whole segments that are free are taken over by whichever stream needs one. Blocks of private pools keep the
// handle: graphs that share a pool are replayed one after another anyway, so a new stream with the old handle may use
// them.

namespace reprise {

using backend::Call;
using backend::RelaxedCaptureMode;
using backend::warn_on_error;
using backend::WarnOnError;
using memory::BlockState;
using memory::MemoryBlock;
using memory::Request;

void CachingAllocator::Impl::stream_ends(const StreamRef& stream) noexcept {
  try {
    const Lock lock(mutex_);
    // A program may make and destroy streams all the time, and allocate nothing.
    if (!held_back_.empty()) poll_held_back();
    bool own_blocks = false;
    blocks_.for_each([&](MemoryBlock* block) {
      own_blocks |= block->pool == &default_pool_ && StreamRef(device_, block->stream) == stream;
      held_back_.stream_ends(block, stream);
    });
    held_back_.stream_ends(stream);
    if (!own_blocks) return;
    forget_ended_streams();
    auto ended = std::make_unique<EndedStream>();
    backend::Backend& backend = device_.backend();
    // On a capturing stream an event would never be reached. Then other streams never get the memory, and it goes back
    // to the driver, which waits for all work.
    if (backend::may_record(stream)) ended->event = held_back_.take_event(backend);
    if (ended->event != nullptr &&
        !WarnOnError(backend).event_record(ended->event, stream.native(), backend::EventUseFlags::ordering))
      held_back_.return_event(backend, std::exchange(ended->event, nullptr));
    retag_blocks(stream.native(), ended->tag());
    ended_streams_.push_back(std::move(ended));
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

void CachingAllocator::Impl::retag_blocks(StreamHandle from, StreamHandle to) {
  blocks_.for_each([&](MemoryBlock* block) {
    if (block->stream != from || block->pool != &default_pool_) return;
    // A set is ordered by the stream.
    memory::FreeSet& set = default_pool_.blocks(block->small);
    const bool cached = block->state == BlockState::cached;
    if (cached) set.erase(block);
    block->stream = to;
    if (cached) set.insert(block);
  });
}

// A whole segment of a destroyed stream whose work is done, now of `stream`; null if there is none.
MemoryBlock* CachingAllocator::Impl::adopt(const Request& request, StreamHandle stream) {
  backend::Backend& backend = device_.backend();
  for (const std::unique_ptr<EndedStream>& ended : ended_streams_) {
    if (!ended->done && ended->event != nullptr) {
      const RelaxedCaptureMode relaxed(backend);
      const backend::Result result = backend.event_query(ended->event);
      if (result == ErrorCode::not_ready) continue;
      held_back_.return_event(backend, std::exchange(ended->event, nullptr));
      ended->done = warn_on_error(backend, Call::event_query, result);
    }
    if (!ended->done) continue;
    MemoryBlock* const block = default_pool_.blocks(request.small).take_whole_segment({ended->tag(), request.bytes});
    if (block == nullptr) continue;
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
