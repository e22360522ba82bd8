// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "backend/host/capture/host_capture.h"
#include "backend/host/host_settings.h"
#include "backend/host/memory/fault_handler.h"
#include "backend/host/run/seeded_chooser.h"
#include "support/forked.h"
#include "support/immortal.h"
#include "support/thread_object.h"
#include "text/format.h"

namespace reprise::backend::host {
namespace {

// Never destroyed: threads may end until the process does.
struct Runtimes {
  std::mutex mutex;  // locked before that of a runtime
  std::vector<HostRuntime*> all;
};

Runtimes& runtimes() {
  return support::Immortal<Runtimes>::get();
}

/// The number of a thread that uses its default stream.
struct ThreadWithStreams {
  const std::uint64_t number = next_id();
  ~ThreadWithStreams() {
    HostRuntime::for_each([this](HostRuntime& runtime) { runtime.thread_ends(number); });
  }
};

}  // namespace

HostRuntime::HostRuntime(const HostDeviceOptions& options, Identity identity) : failures(injected_failures()) {
  support::watch_forks();
  explain_faults();
  if (options.scheduler_seed) executor.run_by_steps(std::make_unique<SeededChooser>(*options.scheduler_seed));
  if (options.check_races) races = std::make_unique<RaceCheck>(*this, std::move(identity.races));
  for (int i = 0; i < identity.devices; ++i) {
    const int index = identity.first_index + i;
    devices.push_back(std::make_unique<HostDevice>(*this, text::format("{}:{}", identity.kind, index), index, options));
  }
  const std::lock_guard lock(runtimes().mutex);
  runtimes().all.push_back(this);
}

HostRuntime& HostRuntime::instance() {
  // Never destroyed: operations may still run when the process leaves main().
  static support::Immortal<HostRuntime> runtime(
      settings::options(),
      Identity{.devices = settings::devices(), .races = [](const HostRace& race) { warn(race.str()); }});
  return *runtime;
}

void HostRuntime::for_each(const std::function<void(HostRuntime&)>& f) {
  if (support::forked()) return;
  const std::lock_guard lock(runtimes().mutex);
  for (HostRuntime* const runtime : runtimes().all) f(*runtime);
}

void HostRuntime::wait_until_idle() {
  for (const auto& device : devices) {
    std::vector<OperationRef> last;
    {
      const std::lock_guard lock(mutex);
      last = device->frontier();
    }
    for (const OperationRef& operation : last) executor.wait(operation);
  }
  executor.wait_for_releases();  // launches hold user objects
  UserObject::wait_for_destructors(*this);
}

HostGraph* HostRuntime::find(GraphHandle handle) const {
  return inner_graphs.contains(handle) ? reinterpret_cast<HostGraph*>(handle) : find_in(graphs, handle);
}

HostNode* HostRuntime::find(GraphNodeHandle handle) const {
  return nodes.contains(handle) ? reinterpret_cast<HostNode*>(handle) : nullptr;
}

std::shared_ptr<GraphMemory> HostRuntime::find_graph_memory(const void* address) const {
  const auto found = graph_memory.find(address);
  return found == graph_memory.end() ? nullptr : found->second.lock();
}

std::shared_ptr<GraphMemory> HostRuntime::new_graph_memory(HostDevice& device, std::size_t bytes) {
  std::shared_ptr<GraphMemory> made = GraphMemory::reserve(device.memory(), bytes);
  if (made == nullptr) return nullptr;
  std::erase_if(graph_memory, [](const auto& entry) { return entry.second.expired(); });
  graph_memory.insert_or_assign(made->address(), made);
  return made;
}

HostStream* HostRuntime::find(StreamHandle handle, HostDevice& device) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value <= 1) return &device.legacy_stream();
  if (value == 2) return &thread_stream(device);
  return find_in(streams, handle);
}

HostStream& HostRuntime::thread_stream(HostDevice& device) {
  const std::uint64_t thread = support::ThreadObject<ThreadWithStreams>::get().number;
  auto& known = device.thread_streams();
  if (const auto found = known.find(thread); found != known.end()) return *found->second;
  HostStream& stream = make_stream(device, true, 0);
  try {
    known.emplace(thread, &stream);
  } catch (...) {
    destroy(stream);
    throw;
  }
  stream.thread = thread;
  return stream;
}

void HostRuntime::thread_ends(std::uint64_t thread) {
  const std::lock_guard lock(mutex);
  for (const auto& device : devices) {
    const auto found = device->thread_streams().find(thread);
    if (found == device->thread_streams().end()) continue;
    HostStream& stream = *found->second;
    device->thread_streams().erase(found);
    destroy(stream);
  }
}

HostStream& HostRuntime::make_stream(HostDevice& device, bool blocking, int priority) {
  auto stream = std::make_unique<HostStream>();
  stream->device = &device;
  stream->id = next_id();
  stream->blocking = blocking;
  stream->priority = priority;
  HostStream* const raw = stream.get();
  device.make_room_for_stream();
  streams.emplace(raw, std::move(stream));
  device.streams().push_back(raw);
  return *raw;
}

void crash_as_driver(const char* what) noexcept {
  std::fprintf(stderr, "reprise: %s: CUDA's driver (580, CUDA 13.0) crashes here, and so does the host device.\n",
               what);
  std::abort();
}

void HostRuntime::destroy(HostStream& stream) {
  if (const std::shared_ptr<HostCapture> capture = stream.capture) {
    if (capture->origin == &stream) {
      drop_capture(*this, *capture);
    } else {
      capture->left_behind.push_back(stream.capture_dependencies);
      std::erase(capture->streams, &stream);
    }
  }
  stream.device->adopt(stream.tail);
  std::erase(stream.device->streams(), &stream);
  streams.erase(&stream);
}

void HostRuntime::enter_nodes(const HostGraph& graph) {
  for (const auto& node : graph.nodes) {
    nodes.insert(node.get());
    for (const auto& inner : node->graphs) enter_inner(*inner);
  }
}

void HostRuntime::forget_nodes(const HostGraph& graph) noexcept {
  for (const auto& node : graph.nodes) {
    nodes.erase(node.get());
    for (const auto& inner : node->graphs) forget_inner(*inner);
  }
}

void HostRuntime::enter_inner(const HostGraph& graph) {
  inner_graphs.insert(&graph);
  enter_nodes(graph);
}

void HostRuntime::forget_inner(const HostGraph& graph) noexcept {
  if (graph.lost) crash_as_driver("a conditional node is destroyed, and the capture of its body had failed");
  for (const auto& capture : captures)
    if (capture->graph == &graph) lose_graph(*capture);
  inner_graphs.erase(&graph);
  forget_nodes(graph);
}

GraphHandle HostRuntime::adopt(std::unique_ptr<HostGraph> graph) {
  HostGraph* const raw = graph.get();
  graphs.emplace(raw, std::move(graph));
  try {
    enter_nodes(*raw);
  } catch (...) {
    destroy(*raw);
    throw;
  }
  return handle_of(*raw);
}

HostNode& HostRuntime::add_node(HostGraph& graph, HostDevice& device, NodeType type, Work work,
                                std::span<const Dependency> dependencies) {
  HostNode& node = graph.add(device, type, std::move(work), dependencies);
  try {
    nodes.insert(&node);
  } catch (...) {
    destroy(node);
    throw;
  }
  return node;
}

void HostRuntime::destroy(HostNode& node) {
  while (!node.dependencies.empty()) disconnect(node.dependencies.back(), node);
  while (!node.dependents.empty()) {
    HostNode& dependent = *node.dependents.back();
    disconnect(*std::ranges::find(dependent.dependencies, &node, &Dependency::node), dependent);
  }
  nodes.erase(&node);
  for (const auto& inner : node.graphs) forget_inner(*inner);
  std::erase_if(node.graph->nodes, [&](const auto& owned) { return owned.get() == &node; });
}

void HostRuntime::adopt(HostNode& node, std::vector<std::unique_ptr<HostGraph>> inner) {
  try {
    for (const auto& graph : inner) {
      graph->owner = &node;
      enter_inner(*graph);
    }
  } catch (...) {
    for (const auto& graph : inner) forget_inner(*graph);
    throw;
  }
  for (const auto& graph : node.graphs) forget_inner(*graph);
  node.graphs = std::move(inner);
}

void HostRuntime::destroy(HostGraph& graph) {
  forget_nodes(graph);
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
