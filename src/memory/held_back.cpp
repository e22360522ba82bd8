// SPDX-License-Identifier: Apache-2.0
#include "memory/held_back.h"

#include <algorithm>
#include <utility>

#include "backend/check.h"
#include "backend/objects/tracked_stream.h"
#include "captures/registry.h"

namespace reprise::memory {
namespace {

using backend::Call;
using backend::RelaxedCaptureMode;
using backend::Result;
using backend::warn_on_error;
using backend::WarnOnError;

// For captures that are not of this library, while none of this library is underway. backend::may_record() does not
// pass on the code of an error.
//
// The query of a stream that other code has destroyed is undefined in CUDA, but reprise has no notice of that, and a
// deferred block needs events sooner or later: an error is the only sign. After it, the streams of the block are not
// queried again: the handle may come back for another stream, whose events say nothing about the old work.
bool may_record_on_all(MemoryBlock& block) {
  return !block.gone_stream && std::ranges::all_of(block.recorded, [&](const StreamRef& stream) {
    CaptureStatus status = CaptureStatus::none;
    const Result result = stream.device().backend().stream_is_capturing(stream.native(), &status);
    block.gone_stream = result == ErrorCode::invalid_handle || result == ErrorCode::context_is_destroyed;
    return !result.failed() && status == CaptureStatus::none;
  });
}

bool is_done(const MemoryBlock& block) {
  return block.state == BlockState::held_back && !block.deferred && block.recorded.empty() && block.pending_events == 0;
}

}  // namespace

HeldBackBlocks::~HeldBackBlocks() {
  for (const auto& [backend, event] : spare_events_) WarnOnError(*backend).event_destroy(event);
}

void HeldBackBlocks::hold(MemoryBlock* block) {
  block->state = BlockState::held_back;
  if (block->recorded.empty() && !block->captured_use) return;  // its events are in the queues already
  const captures::NoneUnderway none_underway;
  if (block->captured_use || !none_underway || !may_record_on_all(*block) || !record_all(block)) defer(block);
}

void HeldBackBlocks::defer(MemoryBlock* block) {
  deferred_.push_back(block);
  block->deferred = true;
  block->waited = false;
}

void HeldBackBlocks::poll(std::vector<MemoryBlock*>& done) {
  if (!deferred_.empty()) poll_deferred(done);
  if (events_ == 0) return;
  for (StreamQueue& queue : queues_) poll_stream(queue, done);
  if (!any_ended_) return;
  std::erase_if(queues_, [](const StreamQueue& queue) { return queue.ended && queue.pending.empty(); });
  any_ended_ = std::ranges::any_of(queues_, &StreamQueue::ended);
}

void HeldBackBlocks::stream_ends(const StreamRef& stream) {
  const auto queue = std::ranges::find(queues_, stream, &StreamQueue::stream);
  if (queue == queues_.end()) return;
  if (queue->pending.empty()) {
    queues_.erase(queue);
    return;
  }
  queue->ended = any_ended_ = true;
}

void HeldBackBlocks::stream_ends(MemoryBlock* block, const StreamRef& stream) {
  const auto found = std::find(block->recorded.begin(), block->recorded.end(), stream);
  if (found == block->recorded.end()) return;
  block->recorded.erase(found);
  // Work of a capturing stream becomes nodes, and there is nothing to wait for; but later nodes of the capture may run
  // beside them. Without an event the completion of the stream's work is never known: the block is kept, as if for an
  // event that never completes.
  if (!backend::may_record(stream))
    block->captured_use = true;
  else if (!record(block, stream))
    block->pending_events += 1;
}

bool HeldBackBlocks::has_gone_streams() const {
  return std::ranges::any_of(deferred_, &MemoryBlock::gone_stream);
}

void HeldBackBlocks::begin_wait() noexcept {
  for (MemoryBlock* const block : deferred_) block->waited = true;
}

void HeldBackBlocks::end_wait(const Device& device) noexcept {
  for (MemoryBlock* const block : deferred_) {
    if (!block->waited) continue;  // its work may have been submitted during the wait
    std::erase_if(block->recorded, [&](const StreamRef& stream) { return stream.device() == device; });
    block->gone_stream = block->unrecorded = false;
  }
}

std::vector<std::pair<backend::Backend*, EventHandle>> HeldBackBlocks::last_events() const {
  std::vector<std::pair<backend::Backend*, EventHandle>> events;
  for (const StreamQueue& queue : queues_) {
    if (!queue.pending.empty()) events.emplace_back(&queue.stream.device().backend(), queue.pending.back().event);
  }
  return events;
}

EventHandle HeldBackBlocks::take_event(backend::Backend& backend, bool quiet) noexcept {
  const auto found = std::find_if(spare_events_.begin(), spare_events_.end(),
                                  [&](const auto& spare) { return spare.first == &backend; });
  if (found != spare_events_.end()) {
    const EventHandle event = found->second;
    *found = spare_events_.back();
    spare_events_.pop_back();
    return event;
  }
  EventHandle event = nullptr;
  const Result result = backend.event_create(&event, backend::EventFlags::disable_timing);
  if (!quiet) warn_on_error(backend, Call::event_create, result);
  return event;
}

void HeldBackBlocks::return_event(backend::Backend& backend, EventHandle event) {
  spare_events_.emplace_back(&backend, event);
}

// False: nothing was recorded, which is reported once per block.
bool HeldBackBlocks::record(MemoryBlock* block, const StreamRef& stream) {
  backend::Backend& backend = stream.device().backend();
  const bool quiet = std::exchange(block->unrecorded, true);
  const EventHandle event = take_event(backend, quiet);
  if (event == nullptr) return false;
  const Result result = backend.event_record(event, stream.native(), backend::EventUseFlags::ordering);
  if (result.failed()) {
    if (!quiet) warn_on_error(backend, Call::event_record, result);
    return_event(backend, event);
    return false;
  }
  block->unrecorded = false;
  block->pending_events += 1;
  auto queue = std::ranges::find(queues_, stream, &StreamQueue::stream);
  if (queue == queues_.end()) queue = queues_.insert(queue, StreamQueue{stream, {}});
  queue->ended = false;  // a new stream may have the handle of a destroyed one
  queue->pending.push_back({event, block});
  events_ += 1;
  return true;
}

// False: some streams have to be tried again.
bool HeldBackBlocks::record_all(MemoryBlock* block) {
  std::erase_if(block->recorded, [&](const StreamRef& stream) { return record(block, stream); });
  return block->recorded.empty();
}

void HeldBackBlocks::poll_deferred(std::vector<MemoryBlock*>& done) {
  const captures::NoneUnderway none_underway;
  if (!none_underway) return;
  std::erase_if(deferred_, [&](MemoryBlock* block) {
    if (!may_record_on_all(*block) || !record_all(block)) return false;
    block->deferred = block->captured_use = false;
    if (is_done(*block)) done.push_back(block);
    return true;
  });
}

void HeldBackBlocks::poll_stream(StreamQueue& queue, std::vector<MemoryBlock*>& done) {
  if (queue.pending.empty()) return;
  backend::Backend& backend = queue.stream.device().backend();
  const RelaxedCaptureMode relaxed(backend);
  while (!queue.pending.empty()) {
    Pending& oldest = queue.pending.front();
    const Result result = backend.event_query(oldest.event);
    if (result == ErrorCode::not_ready) return;
    if (result.failed() && !std::exchange(oldest.reported, true)) warn_on_error(backend, Call::event_query, result);
    // Query again later, unless a capture recorded the event: then it never completes, and each query breaks that
    // capture. The block is kept.
    if (result.failed() && result != ErrorCode::captured_event) return;
    const Pending first = oldest;
    queue.pending.pop_front();
    events_ -= 1;
    return_event(backend, first.event);
    if (result.failed()) continue;
    first.block->pending_events -= 1;
    if (is_done(*first.block)) done.push_back(first.block);
  }
}

}  // namespace reprise::memory
