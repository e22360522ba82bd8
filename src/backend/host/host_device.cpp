// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_device.h"

#include <algorithm>
#include <utility>

#include "backend/host/host_runtime.h"
#include "support/room.h"

namespace reprise::backend::host {

HostDevice::HostDevice(HostRuntime& runtime, std::string name, int index, const HostDeviceOptions& options)
    : runtime_(runtime),
      name_(std::move(name)),
      index_(index),
      races_(runtime.races.get()),
      memory_(name_, options.memory_bytes, options.protect) {
  legacy_.device = this;
  legacy_.id = next_id();
  legacy_.blocking = true;
  legacy_.priority = 0;
  legacy_.legacy = true;
}

Executor& HostDevice::executor() const noexcept {
  return runtime_.executor;
}

void HostDevice::enqueue(HostStream& stream, const OperationRef& operation, std::span<const OperationRef> further) {
  if (!stream.legacy && further.empty()) [[likely]] {
    const OperationRef before[] = {stream.tail, stream.blocking ? legacy_.tail : OperationRef()};
    if (races_ != nullptr) [[unlikely]]
      races_->order(stream, *operation.get(), before);
    runtime_.executor.submit(operation, before);
  } else {
    std::vector<OperationRef> before = frontier(stream);
    before.insert(before.end(), further.begin(), further.end());
    if (races_ != nullptr) [[unlikely]]
      races_->order(stream, *operation.get(), before);
    runtime_.executor.submit(operation, before);
  }
  stream.tail = operation;
}

std::vector<OperationRef> HostDevice::frontier(const HostStream& stream) const {
  std::vector<OperationRef> last{stream.tail};
  if (stream.legacy) {
    for (const HostStream* other : streams_)
      if (other->blocking && !negligible(other->tail)) last.push_back(other->tail);
  } else if (stream.blocking && !negligible(legacy_.tail)) {
    last.push_back(legacy_.tail);
  }
  return last;
}

std::vector<OperationRef> HostDevice::frontier() const {
  std::vector<OperationRef> last{legacy_.tail};
  for (const HostStream* stream : streams_)
    if (!negligible(stream->tail)) last.push_back(stream->tail);
  for (const OperationRef& orphan : orphans_)
    if (!negligible(orphan)) last.push_back(orphan);
  return last;
}

void HostDevice::make_room_for_stream() {
  support::make_room(streams_);
  support::make_room(orphans_, streams_.size() + 1);  // each stream may become one
}

void HostDevice::adopt(OperationRef tail) noexcept {
  std::erase_if(orphans_, [this](const OperationRef& orphan) { return negligible(orphan); });
  if (!negligible(tail)) orphans_.push_back(std::move(tail));
}

void HostDevice::make_room_for_free() {
  if (frees_.size() == frees_.capacity()) pending_free();
  support::make_room(frees_);
}

OperationRef HostDevice::pending_free() noexcept {
  std::erase_if(frees_, [](const OperationRef& free) { return free.done(); });
  return frees_.empty() ? OperationRef() : frees_.front();
}

void HostDevice::set_sticky_error(std::string_view what) noexcept {
  const std::lock_guard lock(error_mutex_);
  if (broken_.load(std::memory_order_relaxed)) return;
  try {
    error_ = what;
  } catch (...) {
    error_.clear();
  }
  broken_.store(true, std::memory_order_release);
}

std::string HostDevice::sticky_error() const {
  const std::lock_guard lock(error_mutex_);
  return error_;
}

}  // namespace reprise::backend::host
