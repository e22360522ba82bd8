// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_device.h"

#include <algorithm>

#include "backend/host/run/seeded_chooser.h"
#include "support/immortal.h"

namespace reprise::backend::host {

HostDevice::HostDevice(int index, const HostDeviceOptions& options, RaceCheck* races)
    : index_(index), races_(races), memory_(options.memory_bytes, options.protect) {
  legacy_.device = this;
  legacy_.id = next_id();
  legacy_.blocking = true;
  legacy_.priority = 0;
  legacy_.legacy = true;
}

void HostDevice::enqueue(HostStream& stream, const OperationRef& operation, std::span<const OperationRef> further) {
  if (!stream.legacy && further.empty()) [[likely]] {
    const OperationRef before[] = {stream.tail, stream.blocking ? legacy_.tail : OperationRef()};
    if (races_ != nullptr) [[unlikely]]
      races_->order(stream, *operation.get(), before);
    Executor::instance().submit(operation, before);
  } else {
    std::vector<OperationRef> before = frontier(stream);
    before.insert(before.end(), further.begin(), further.end());
    if (races_ != nullptr) [[unlikely]]
      races_->order(stream, *operation.get(), before);
    Executor::instance().submit(operation, before);
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

void HostDevice::adopt(OperationRef tail) {
  std::erase_if(orphans_, [this](const OperationRef& orphan) { return negligible(orphan); });
  if (!negligible(tail)) orphans_.push_back(std::move(tail));
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

HostRuntime::HostRuntime(const HostDeviceOptions& options) {
  if (options.scheduler_seed)
    Executor::instance().run_by_steps(std::make_unique<SeededChooser>(*options.scheduler_seed));
  for (const FailurePlan::Failure& failure : failures_of_environment()) failures.add(failure);
  if (options.check_races) races = std::make_unique<RaceCheck>(*this);
  for (int i = 0; i < options.devices; ++i) devices.push_back(std::make_unique<HostDevice>(i, options, races.get()));
}

HostRuntime& HostRuntime::instance() {
  // Never destroyed: operations may still run when the process leaves main().
  static support::Immortal<HostRuntime> runtime(host_device_options());
  return *runtime;
}

namespace {

template <class Map>
auto find_in(const Map& map, const void* handle) -> decltype(map.begin()->second.get()) {
  const auto found = map.find(handle);
  return found == map.end() ? nullptr : found->second.get();
}

}  // namespace

HostEvent* HostRuntime::find(EventHandle handle) const {
  return find_in(events, handle);
}
HostGraph* HostRuntime::find(GraphHandle handle) const {
  return find_in(graphs, handle);
}
HostExec* HostRuntime::find(GraphExecHandle handle) const {
  return find_in(execs, handle);
}
UserObject* HostRuntime::find(UserObjectHandle handle) const {
  return find_in(user_objects, handle);
}

HostNode* HostRuntime::find(GraphNodeHandle handle) const {
  return nodes.contains(handle) ? reinterpret_cast<HostNode*>(handle) : nullptr;
}

HostStream* HostRuntime::find(StreamHandle handle, HostDevice& device) const {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value <= 1) return &device.legacy_stream();
  return find_in(streams, handle);
}

GraphHandle HostRuntime::adopt(std::unique_ptr<HostGraph> graph) {
  for (const auto& node : graph->nodes) nodes.insert(node.get());
  HostGraph* const raw = graph.get();
  graphs.emplace(raw, std::move(graph));
  return reinterpret_cast<GraphHandle>(raw);
}

void HostRuntime::destroy(HostGraph& graph) {
  for (const auto& node : graph.nodes) nodes.erase(node.get());
  graphs.erase(&graph);
}

PointerInfo pointer_info(HostRuntime& runtime, const void* pointer) {
  PointerInfo info;
  for (const auto& device : runtime.devices) {
    if (const auto block = device->memory().find(pointer)) {
      info = {MemoryKind::device, device->index(), block->base, block->bytes, block->id};
      return info;
    }
  }
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto after = runtime.pinned.upper_bound(address);
  if (after == runtime.pinned.begin()) return info;
  --after;
  if (address - after->first >= after->second.bytes) return info;
  info = {MemoryKind::pinned, 0, reinterpret_cast<void*>(after->first), after->second.bytes, after->second.id};
  return info;
}

}  // namespace reprise::backend::host
