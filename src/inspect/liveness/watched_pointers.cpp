// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/watched_pointers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "backend/capture_query.h"
#include "backend/check.h"
#include "text/format.h"

namespace reprise::inspect {

using memory::BlockWatch;
using memory::UsedAddress;

namespace {

constexpr const char* watch_call = "CUDAGraph::watch_pointers";

backend::PointerInfo info_of(const Device& device, const void* address) {
  backend::PointerInfo info;
  backend::Checked(device.backend()).pointer_info(address, &info);
  return info;
}

[[noreturn]] void refuse(const std::string& found) {
  throw UsageError(
      text::format("{}: expected a table of one or more pointers in memory of the graph's device, or in pinned memory, "
                   "that is allocated now and not the graph's own; found {}. Nothing has changed.",
                   watch_call, found));
}

void require_shape(const void* const* table, std::size_t count) {
  if (table == nullptr) refuse("a null pointer");
  if (count == 0) refuse("a count of 0");
  if (count > SIZE_MAX / sizeof(void*)) refuse(text::format("a count of {}, perhaps a negative number", count));
  if (reinterpret_cast<std::uintptr_t>(table) % alignof(void*) != 0)
    refuse(text::format("the address {}, which is no multiple of {}", static_cast<const void*>(table), alignof(void*)));
}

// `begin` and `bytes`: the block in which the table begins.
void require_in_block(const void* const* table, std::size_t count, const void* begin, std::size_t bytes) {
  const auto offset =
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(table) - static_cast<const std::byte*>(begin));
  if (count * sizeof(void*) > bytes - offset)
    refuse(text::format("{} pointers, where {} lie between the address and the end of its memory", count,
                        (bytes - offset) / sizeof(void*)));
}

std::string entry_text(const void* const* table, std::size_t index) {
  return text::format("entry {} of the pointers at {}", index, static_cast<const void*>(table));
}

// Captures of this library were refused before; one that other code began would take the copy.
void require_not_captured(const StreamRef& stream) {
  if (!backend::captures_work(stream)) return;
  throw UsageError(
      "CUDAGraph::replay: the stream is being captured. The copy that reads the tables of CUDAGraph::watch_pointers "
      "must run on it now. Replay on a stream that takes no part in a capture. The capture continues.");
}

}  // namespace

void WatchedPointers::Graph::find(std::span<UsedAddress> addresses) const {
  memory::watch_addresses(device, addresses, pools);
  if (source != nullptr) source->find(addresses);
}

void WatchedPointers::add(const Graph& graph, const void* const* table, std::size_t count) {
  require_shape(table, count);
  const backend::PointerInfo info = info_of(graph.device, table);
  if (info.kind == backend::MemoryKind::unregistered)
    refuse(text::format("the address {}, which lies in no memory of the device", static_cast<const void*>(table)));
  if (info.kind == backend::MemoryKind::device && info.device_index != graph.device.index())
    refuse(text::format("memory of device {}, where the graph is of {}", info.device_index, graph.device.str()));
  UsedAddress used{reinterpret_cast<std::uintptr_t>(table)};
  graph.find({&used, 1});
  if (used.own) refuse("memory of the graph's own pool, which its replays write");
  if (used.in_allocator && used.watch == nullptr) refuse("memory that was freed");
  Table made{table, count, target_of(graph, used)};
  if (used.watch == nullptr) {
    made.own.id = info.id;
    made.own.input.address = info.base;
    made.own.input.bytes = info.bytes;
    made.own.input.not_checked.clear();
  }
  require_in_block(table, count, made.own.input.address, made.own.input.bytes);
  made.own.input.nodes = {text::format("the table of {} pointers at {}", count, static_cast<const void*>(table))};
  const auto known = std::ranges::find(tables_, table, &Table::address);
  if (known != tables_.end())
    *known = std::move(made);
  else
    tables_.push_back(std::move(made));
}

void WatchedPointers::changed() noexcept {
  for (Table& table : tables_) table.is_read = false;
}

void WatchedPointers::take(const WatchedPointers& other) {
  for (const Table& table : other.tables_)
    if (std::ranges::find(tables_, table.address, &Table::address) == tables_.end())
      tables_.push_back({table.address, table.count, table.own});
  changed();
}

// The memory that an address lies in, without users.
WatchedPointers::Target WatchedPointers::target_of(const Graph& graph, const UsedAddress& used) {
  const auto* const address = reinterpret_cast<const void*>(used.value);
  if (used.watch != nullptr) {
    const BlockWatch& watch = *used.watch;
    return {{watch.address, watch.bytes, {}, false, watch.created, {}}, used.watch};
  }
  Target target{{address}, nullptr};
  target.was_free = used.in_allocator;
  if (used.in_allocator) return target;
  if (graph.scope != Liveness::all) {
    target.input.not_checked =
        "the address lies in no memory of an allocator that is known; Liveness::all looks for memory of the driver, "
        "too";
    return target;
  }
  const backend::PointerInfo info = info_of(graph.device, address);
  if (info.kind == backend::MemoryKind::unregistered) {
    target.input.not_checked = "no allocator knows the address";
    return target;
  }
  target.input.address = info.base;
  target.input.bytes = info.bytes;
  target.id = info.id;
  return target;
}

void WatchedPointers::read(const Graph& graph, const StreamRef& stream, Table& table) {
  require_not_captured(stream);
  std::vector<std::uintptr_t> entries(table.count);
  {
    const backend::Checked runtime(graph.device.backend());
    const backend::RelaxedCaptureMode relaxed(graph.device.backend());  // for captures of other threads
    runtime.copy_async(entries.data(), table.address, entries.size() * sizeof(void*), stream.native());
    runtime.stream_synchronize(stream.native());
  }
  const std::set<std::uintptr_t> distinct(entries.begin(), entries.end());
  std::vector<UsedAddress> addresses;
  for (const std::uintptr_t value : distinct)
    if (value != 0) addresses.push_back({value});
  graph.find(addresses);
  // By address and watch, since the same memory may have been freed and be in use again.
  std::map<std::pair<const void*, const BlockWatch*>, std::size_t> by_block;
  std::map<std::uintptr_t, std::size_t> by_value;
  std::vector<Target> targets;
  for (const UsedAddress& used : addresses) {
    if (used.own) continue;
    Target target = target_of(graph, used);
    const auto [block, is_new] = by_block.try_emplace({target.input.address, target.watch.get()}, targets.size());
    if (is_new) targets.push_back(std::move(target));
    by_value.emplace(used.value, block->second);
  }
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (const auto found = by_value.find(entries[i]); found != by_value.end())
      targets[found->second].input.nodes.push_back(entry_text(table.address, i));
  table.targets = std::move(targets);
  table.is_read = true;
}

bool WatchedPointers::add_if_dead(const Graph& graph, const Target& target, std::vector<DeadInput>& dead) {
  if (target.watch != nullptr) {
    if (target.needs_query()) target.watch->owner->query(*target.watch);
    if (!target.watch->freed.load(std::memory_order_acquire)) return false;
    dead.push_back({target.input, target.watch->freed_by, target.watch->owner->is_given_out_again(*target.watch)});
    return true;
  }
  if (target.was_free) {
    dead.push_back({target.input, {}, false});
    return true;
  }
  if (target.id == 0) return false;
  const backend::PointerInfo info = info_of(graph.device, target.input.address);
  if (info.id == target.id) return false;
  dead.push_back({target.input, {}, info.kind != backend::MemoryKind::unregistered});
  return true;
}

void WatchedPointers::check(const Graph& graph, const StreamRef& stream, std::vector<DeadInput>& dead) {
  for (Table& table : tables_) {
    if (add_if_dead(graph, table.own, dead)) continue;
    if (!table.is_read) read(graph, stream, table);
    for (const Target& target : table.targets) add_if_dead(graph, target, dead);
  }
}

bool WatchedPointers::queries() const noexcept {
  return std::ranges::any_of(tables_, [](const Table& table) {
    return table.own.needs_query() || std::ranges::any_of(table.targets, &Target::needs_query);
  });
}

void WatchedPointers::list(std::vector<GraphInput>& inputs) const {
  for (const Table& table : tables_) {
    inputs.push_back(table.own.input);
    for (const Target& target : table.targets) inputs.push_back(target.input);
  }
}

}  // namespace reprise::inspect
