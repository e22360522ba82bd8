// SPDX-License-Identifier: Apache-2.0
#include "backend/host/races/race_check.h"

#include <algorithm>
#include <ostream>

#include "backend/host/host_runtime.h"
#include "text/format.h"

namespace reprise::backend::host {
namespace {

std::string describe(const HostStream& stream) {
  const std::string& device = stream.device->name();
  if (stream.legacy) return text::format("the legacy default stream of {}", device);
  if (stream.thread != 0) return text::format("a per-thread default stream (number {}) of {}", stream.id, device);
  return text::format("stream {} of {}", static_cast<const void*>(&stream), device);
}

HostRace::Operation operation_of(const Touch& touch) {
  const Access& access = touch.access;
  return {access.name, touch.place, access.writes, reinterpret_cast<const void*>(access.begin),
          access.end - access.begin};
}

}  // namespace

void RaceCheck::order(HostStream& stream, Operation& operation, std::span<const OperationRef> before) {
  auto clock = std::make_unique<Clock>();
  for (const OperationRef& earlier : before)
    if (earlier && earlier->clock != nullptr) clock->merge(*earlier->clock);
  clock->subtract(host_);
  clock->add({stream.id, ++stream.ticks});
  operation.clock = std::move(clock);
}

void RaceCheck::touch(const HostStream& stream, const Operation& operation, std::vector<Access> accesses) {
  const Shadow::IsOrdered is_ordered = [&](const Epoch& epoch) { return ordered(epoch, *operation.clock); };
  const Shadow::OnConflict conflict = [&](const Touch& earlier, const Touch& now) {
    report(earlier, now,
           "record an event on the first operation's stream right after it, and make the second operation's stream "
           "wait for that event before the second operation (Event::record, StreamRef::wait)");
  };
  const std::string place = describe(stream);
  for (Access& access : accesses)
    shadow_.touch(std::make_shared<Touch>(Touch{std::move(access), {stream.id, stream.ticks}, place, stream.id}),
                  is_ordered, conflict);
}

void RaceCheck::launched(const HostStream& stream, Operation& launch, std::span<const OperationRef> points,
                         const HostExec& exec) {
  // A point that this launch records has no clock yet.
  for (const OperationRef& point : points)
    if (point && point->clock != nullptr) launch.clock->merge(*point->clock);
  for (const OperationRef& point : points)
    if (point && point->clock == nullptr) point->clock = std::make_unique<Clock>(*launch.clock);
  touch(stream, launch, *exec.accesses);
}

void RaceCheck::host_waited(std::span<const OperationRef> operations) {
  for (const OperationRef& operation : operations)
    if (operation && operation->clock != nullptr) host_.merge(*operation->clock);
}

bool RaceCheck::known_done(const OperationRef& operation) const {
  if (!operation || operation->clock == nullptr) return true;
  Clock unknown = *operation->clock;
  unknown.subtract(host_);
  return unknown.empty();
}

void RaceCheck::forget(const void* pointer, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  shadow_.forget(begin, begin + bytes);
}

void RaceCheck::prepare(HostExec& exec) {
  if (exec.accesses) return;
  PlanWalk walk(exec.plan->size());
  (void)visit(exec, 0, {}, walk);
  exec.accesses = std::move(walk.accesses);
}

// In topological order. A node continues the timeline of a dependency that is not continued yet, so a graph has about
// as many timelines as the streams that it was captured on. A child and a body run between the beginning and the end of
// their node. Of several bodies one runs: they count as ordered, as do the iterations of one. A programmatic edge
// counts as a full one: where the later kernel waits is not known here.
Clock RaceCheck::visit(const HostExec& exec, std::size_t level, const Clock& before, PlanWalk& walk) {
  const PlanShape& shape = exec.plan->shape();
  Clock after = before;
  for (const std::size_t place : shape.topological_order(level)) {
    const PlanShape::Node& node = shape.nodes[place];
    Clock& clock = walk.clocks[place];
    Epoch& epoch = walk.epochs[place];
    clock = before;
    epoch = {place, 1};
    for (const PlanShape::Edge& edge : node.dependencies) {
      clock.merge(walk.clocks[edge.from]);
      if (walk.continued[edge.from] || epoch.tick > 1) continue;
      walk.continued[edge.from] = true;
      epoch = {walk.epochs[edge.from].timeline, walk.epochs[edge.from].tick + 1};
    }
    clock.add(epoch);
    touch_node(exec, place, walk);
    for (const std::size_t inner : node.inner) clock.merge(visit(exec, inner, clock, walk));
    after.merge(clock);
  }
  return after;
}

void RaceCheck::touch_node(const HostExec& exec, std::size_t place, PlanWalk& walk) {
  if (!exec.plan->enabled(place)) return;
  const Clock& clock = walk.clocks[place];
  const std::string where = text::format("node {} of a graph", exec.plan->shape().nodes[place].number);
  for (Access& access : accesses_of(runtime_, exec.plan->work(place), true)) {
    walk.shadow.touch(
        std::make_shared<Touch>(Touch{access, walk.epochs[place], where, exec.id}),
        [&](const Epoch& epoch) { return clock.covers(epoch); },
        [&](const Touch& earlier, const Touch& now) {
          report(earlier, now,
                 "record an event on the first node's stream right after it during the capture, and make the second "
                 "node's stream wait for it (Event::record, StreamRef::wait); nodes are counted from 0 in the order "
                 "in which they were made");
        });
    access.name += " in a launch of a graph";
    walk.accesses.push_back(std::move(access));
  }
}

std::string RaceCheck::describe_memory(std::uintptr_t address) const {
  const PointerInfo info = pointer_info(runtime_, reinterpret_cast<const void*>(address));
  if (info.kind == MemoryKind::unregistered) return "pageable memory of the host";
  const auto device = std::ranges::find(runtime_.devices, info.device_index, &HostDevice::index);
  const std::string where = info.kind == MemoryKind::pinned ? std::string("pinned memory of the host")
                                                            : text::format("memory of {}", (*device)->name());
  return text::format("byte {} of the allocation of {} bytes at {}, {}",
                      address - reinterpret_cast<std::uintptr_t>(info.base), info.bytes, info.base, where);
}

void RaceCheck::report(const Touch& earlier, const Touch& now, const char* advice) {
  const auto key = [](const Touch& touch) {
    return text::format("{}/{}/{}/{}", touch.access.name, touch.place, touch.id, touch.access.writes);
  };
  if (!reported_.insert(key(earlier) + "|" + key(now)).second) return;
  const std::uintptr_t begin = std::max(earlier.access.begin, now.access.begin);
  const std::uintptr_t end = std::min(earlier.access.end, now.access.end);
  sink_({operation_of(earlier), operation_of(now), reinterpret_cast<const void*>(begin), end - begin,
         describe_memory(begin), advice});
}

}  // namespace reprise::backend::host

namespace reprise {

std::string HostRace::str() const {
  const auto words = [](const Operation& operation) {
    return text::format("{} on {} {} {} bytes at {}", operation.name, operation.place,
                        operation.writes ? "writes" : "reads", operation.bytes, operation.address);
  };
  return text::format("race: {}; {}; nothing orders the two. They share {} bytes from {} on: {}. To order them, {}.",
                      words(first), words(second), bytes, address, memory, advice);
}

std::ostream& operator<<(std::ostream& out, const HostRace& race) {
  return out << race.str();
}

}  // namespace reprise
