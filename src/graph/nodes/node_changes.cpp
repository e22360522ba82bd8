// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/node_changes.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "backend/check.h"
#include "backend/host_work.h"
#include "memory/allocator_impl.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Call;
using backend::Checked;
using backend::NodeType;
using backend::Result;
using backend::WarnOnError;

namespace {

using Begin = NodeChanges::Begin;

[[noreturn]] void refuse(const Begin& begin, const std::string& why) {
  throw UsageError(text::format("{}: {}. Nothing has changed.", begin(), why));
}

const char* kind_name(backend::MemoryKind kind) {
  switch (kind) {
    case backend::MemoryKind::device:
      return "memory of device";
    case backend::MemoryKind::pinned:
      return "pinned memory of device";
    default:
      return "pageable memory of the host";
  }
}

std::string place_text(const backend::PointerInfo& info) {
  return info.kind == backend::MemoryKind::unregistered
             ? kind_name(info.kind)
             : text::format("{} {}", kind_name(info.kind), info.device_index);
}

// CUDA's rule, by measurement (driver 580; docs/changing-graphs.md): an executable's copy or set stays on its device, a
// copy of device memory never moves to pageable memory, and a set moves to no pageable memory at all. What counts is
// the memory that the executable was made with: the present one may be another, or was freed and has no kind any more.
// Where that is not known, the driver decides.
enum class Pageable { from_the_host, never };

// \param made_with the device in whose memory the executable's copy had this end.
void check_memory(Backend& backend, std::optional<int> made_with, const void* from, const void* to, Pageable pageable,
                  const char* what, const Begin& begin) {
  if (from == to) return;
  backend::PointerInfo before = Checked(backend).info_of(from);
  std::string place = place_text(before);
  if (made_with && before.kind != backend::MemoryKind::device) {
    before.kind = backend::MemoryKind::device;
    before.device_index = *made_with;
    place += text::format(" (the executable was made with one in {})", place_text(before));
  }
  if (before.kind == backend::MemoryKind::unregistered) return;
  const backend::PointerInfo after = Checked(backend).info_of(to);
  const bool fits = after.kind == backend::MemoryKind::unregistered
                        ? pageable == Pageable::from_the_host && before.kind == backend::MemoryKind::pinned
                        : before.device_index == after.device_index;
  if (fits) return;
  refuse(begin, text::format("expected a {} that can take the place of the present one at {}, in {}; found {}, in {}. "
                             "In an executable CUDA moves neither copies nor sets to another device, nor from memory "
                             "of a device to pageable memory",
                             what, from, place, to, place_text(after)));
}

bool is_pageable(Backend& backend, const void* address) {
  return Checked(backend).info_of(address).kind == backend::MemoryKind::unregistered;
}

void check_kernel(GraphExecHandle exec, const LaunchConfig& from, const LaunchConfig& to, const Begin& begin) {
  if (to.programmatic)
    refuse(begin,
           "LaunchConfig::programmatic was set; in a graph, programmatic dependent launch belongs to an edge, and not "
           "to the kernel");
  if (exec != nullptr && (from.cluster != to.cluster || from.cooperative != to.cooperative))
    refuse(begin,
           "expected the cluster and `cooperative` of the launch, which CUDA does not change in an executable; "
           "capture again with the others");
}

struct Range {
  const void* address;
  std::size_t bytes;
};

// As copies and fills outside of graphs: the runtime would write or read the next block of the segment. Memory that the
// node had already may have been freed since the capture, and another block of the pool lies there now.
void check_block(const Device& device, Range had, Range range, const char* what, const Begin& begin) {
  if (had.address == range.address && range.bytes <= had.bytes) return;
  const auto [address, bytes] = range;
  const auto block = memory::exceeded_block(device, address, bytes);
  if (!block) return;
  refuse(begin,
         text::format("expected a {} of {} bytes within one block of the caching allocator; found {}, which is "
                      "byte {} of a block of {} bytes",
                      what, bytes, address, static_cast<const std::byte*>(address) - block->address, block->bytes));
}

void check_copy(const Device& device, GraphExecHandle exec, const DeviceEnds& made_with, const NodeImage& from,
                const NodeImage& to, const Begin& begin) {
  if (to.copy().bytes == 0) refuse(begin, "a node copies at least 1 byte; disable it instead");
  for (const void* const address : std::initializer_list<const void*>{to.copy().source, to.copy().destination})
    if (to.copy().bytes > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(address))
      refuse(begin,
             text::format("expected bytes that end before the last address; found {} at {}", to.copy().bytes, address));
  const std::size_t had = from.copy().bytes, bytes = to.copy().bytes;
  check_block(device, {from.copy().source, had}, {to.copy().source, bytes}, "source", begin);
  check_block(device, {from.copy().destination, had}, {to.copy().destination, bytes}, "destination", begin);
  if (exec == nullptr) return;
  Backend& backend = device.backend();
  check_memory(backend, made_with.source, from.copy().source, to.copy().source, Pageable::from_the_host, "source",
               begin);
  check_memory(backend, made_with.destination, from.copy().destination, to.copy().destination, Pageable::from_the_host,
               "destination", begin);
}

void check_set(const Device& device, GraphExecHandle exec, const NodeImage& from, const NodeImage& to,
               const Begin& begin) {
  const backend::MemsetNodeParams& set = to.set();
  if (set.element_bytes != 1 && set.element_bytes != 2 && set.element_bytes != 4)
    refuse(begin, text::format("expected elements of 1, 2 or 4 bytes; found {}", set.element_bytes));
  if (set.value != from.set().value && set.element_bytes < sizeof set.value &&
      set.value >> (8 * set.element_bytes) != 0)
    refuse(begin, text::format("expected a value of {} bytes, as its elements have; found {:#x}", set.element_bytes,
                               set.value));
  if (set.count == 0) refuse(begin, "a node sets at least one element; disable it instead");
  if (set.count > (UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(set.destination)) / set.element_bytes)
    refuse(begin, text::format("expected elements that end before the last address; found {} of {} bytes at {}",
                               set.count, set.element_bytes, set.destination));
  if (reinterpret_cast<std::uintptr_t>(set.destination) % set.element_bytes != 0)
    refuse(begin, text::format("expected a destination that is aligned to its elements of {} bytes; found {}",
                               set.element_bytes, set.destination));
  const backend::MemsetNodeParams& had = from.set();
  check_block(device, {had.destination, had.count * had.element_bytes},
              {set.destination, set.count * set.element_bytes}, "destination", begin);
  if (exec != nullptr)
    check_memory(device.backend(), std::nullopt, had.destination, set.destination, Pageable::never, "destination",
                 begin);
}

// More shared memory than this, in bytes, has to be enabled by an attribute of the kernel.
constexpr unsigned shared_bytes_without_attribute = 48 * 1024;

Result enable_shared_memory(Backend& backend, const NodeImage& image) {
  return image.type() == NodeType::kernel && image.config().shared_bytes > shared_bytes_without_attribute
             ? backend.function_set_max_shared(image.function(), image.config().shared_bytes)
             : Result(ErrorCode::success);
}

bool has_attributes(const NodeImage& kernel) {
  return kernel.config().cluster != Dim3{} || kernel.config().cooperative;
}

/// The values of one node on their way into executable and template.
class Write {
 public:
  /// \param pointers outlives this object; nothing else uses it meanwhile.
  Write(Backend& backend, GraphExecHandle exec, GraphNodeHandle node, const NodeImage& image, ParamPointers& pointers)
      : backend_(backend), exec_(exec), node_(node), image_(image), params_(image.params(pointers)) {}

  /// Returns the result; `call` is the one that failed. Then neither has changed, unless what it takes to put them back
  /// fails, too, which is a warning.
  Result make(Call* call, const NodeImage& before) {
    if (auto* const kernel = std::get_if<backend::KernelNodeParams>(&params_))
      kernel->without_attributes = !has_attributes(before) && !has_attributes(image_);
    if (exec_ != nullptr) {
      *call = Call::graph_exec_node_set_params;
      Result result = backend_.graph_exec_node_set_params(exec_, node_, params_);
      if (result.failed()) return result;
    }
    *call = Call::graph_node_set_params;
    Result result = backend_.graph_node_set_params(node_, params_);
    if (!result.failed()) return result;
    // The template can have some of the values: on CUDA, attributes of a kernel are set by further calls.
    ParamPointers pointers;
    Write(backend_, exec_, node_, before, pointers).put_back();
    return result;
  }

  void put_back() const noexcept {
    if (exec_ != nullptr) WarnOnError(backend_).graph_exec_node_set_params(exec_, node_, params_);
    WarnOnError(backend_).graph_node_set_params(node_, params_);
  }

 private:
  Backend& backend_;
  const GraphExecHandle exec_;
  const GraphNodeHandle node_;
  const NodeImage& image_;
  backend::NodeParams params_;
};

}  // namespace

NodeImage& NodeChanges::image_of(Backend& backend, GraphNodeHandle node) {
  return images_.try_emplace(node, backend, node, layouts_).first->second;
}

void NodeChanges::require_not_own(const NodeImage& node, const Begin& begin) {
  if (node.own_kernel() != nullptr)
    refuse(begin,
           "this kernel is the library's own, and its arguments belong to its purpose: random numbers, a batch of "
           "copies or fills, the condition of if_, if_else, switch_ or while_ (its address is fixed), or the "
           "staged inputs of a graphed callable");
}

bool NodeChanges::leaves_device(Backend& backend, GraphNodeHandle node, const NodeImage& from,
                                const NodeImage& to) const {
  const auto [source, destination] = device_ends(node);
  return (source && from.copy().source != to.copy().source && is_pageable(backend, to.copy().source)) ||
         (destination && from.copy().destination != to.copy().destination &&
          is_pageable(backend, to.copy().destination));
}

CopiesOfDevices NodeChanges::copies_of_devices(Backend& backend, GraphHandle template_graph) const {
  CopiesOfDevices found;
  if (!may_copy_) return found;
  const auto device_of = [&](const void* address) -> std::optional<int> {
    const backend::PointerInfo info = Checked(backend).info_of(address);
    return info.kind == backend::MemoryKind::device ? std::optional(info.device_index) : std::nullopt;
  };
  for (GraphNodeHandle const node : Checked(backend).nodes_of(template_graph)) {
    const auto known = images_.find(node);
    const NodeType type = known != images_.end() ? known->second.type() : Checked(backend).type_of(node);
    if (type != NodeType::memcpy && type != NodeType::child_graph && type != NodeType::conditional) continue;
    KernelLayouts layouts;  // of no kernel
    const NodeImage image = known != images_.end() ? known->second : NodeImage(backend, node, layouts);
    for (GraphHandle const inner : image.inner_graphs()) found.merge(copies_of_devices(backend, inner));
    if (type != NodeType::memcpy) continue;
    const DeviceEnds ends{device_of(image.copy().source), device_of(image.copy().destination)};
    if (ends.source || ends.destination) found.emplace(node, ends);
  }
  return found;
}

void NodeChanges::check(const Device& device, GraphExecHandle exec, GraphNodeHandle node, const NodeImage& from,
                        const NodeImage& to, const Begin& begin) const {
  // Operands of a function of the host may be changed by a parameter: it reads them in each run.
  if (from.own_kernel() != nullptr && !backend::is_enqueued(*from.own_kernel())) require_not_own(from, begin);
  if (!from.unknown().empty()) refuse(begin, from.unknown());
  if (to.type() == NodeType::kernel) check_kernel(exec, from.config(), to.config(), begin);
  if (to.type() == NodeType::memcpy) check_copy(device, exec, device_ends(node), from, to, begin);
  if (to.type() == NodeType::memset) check_set(device, exec, from, to, begin);
}

struct NodeChanges::Step {
  GraphNodeHandle node;
  NodeImage* present;
  const NodeImage* to;
};

void NodeChanges::put_back(Backend& backend, GraphExecHandle exec, std::span<const Step> done) {
  ParamPointers pointers;
  for (; !done.empty(); done = done.first(done.size() - 1))
    Write(backend, exec, done.back().node, *done.back().present, pointers).put_back();
}

void NodeChanges::write(Backend& backend, GraphExecHandle exec, std::span<const Step> steps, const Describe& describe) {
  ParamPointers pointers;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    Call call = Call::function_set_max_shared;
    Result result = enable_shared_memory(backend, *step.to);
    if (!result.failed()) result = Write(backend, exec, step.node, *step.to, pointers).make(&call, *step.present);
    if (!result.failed()) continue;
    try {
      backend::raise(backend, call, result, SourceLocation::current(), describe(step.node) + "; nothing has changed");
    } catch (...) {
      put_back(backend, exec, steps.first(i));
      throw;
    }
  }
}

void NodeChanges::apply(Backend& backend, GraphExecHandle exec, std::span<NodeChange> changes, const Describe& describe,
                        const Changed& changed) {
  std::vector<Step> steps;
  steps.reserve(changes.size());
  for (const NodeChange& change : changes) steps.push_back({change.node, &image_of(backend, change.node), &change.to});
  const auto exchange = [&] {
    for (std::size_t i = 0; i < changes.size(); ++i) std::swap(*steps[i].present, changes[i].to);
  };
  write(backend, exec, steps, describe);
  exchange();
  try {
    changed();
  } catch (...) {
    exchange();
    put_back(backend, exec, steps);
    throw;
  }
}

void NodeChanges::set_enabled(Backend& backend, GraphExecHandle exec, GraphNodeHandle node, std::size_t index,
                              bool enabled, const Describe& describe) {
  if (this->enabled(node) == enabled) return;
  if (!enabled) disabled_.emplace(node, index);
  if (exec != nullptr) {
    const Result result = backend.graph_node_set_enabled(exec, node, enabled);
    if (result.failed()) {
      if (!enabled) disabled_.erase(node);
      backend::raise(backend, Call::graph_node_set_enabled, result, SourceLocation::current(), describe(node));
    }
  }
  if (enabled) disabled_.erase(node);
}

// Nodes keep their order, and new ones come after them: a node that is further back is a new one at the address of a
// removed one.
void NodeChanges::disable_in(Backend& backend, GraphHandle template_graph, GraphExecHandle exec) {
  if (disabled_.empty()) return;
  const Checked runtime(backend);
  const std::vector<GraphNodeHandle> nodes = runtime.nodes_of(template_graph);
  std::unordered_map<GraphNodeHandle, std::size_t> left;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto found = disabled_.find(nodes[i]);
    if (found == disabled_.end() || i > found->second) continue;
    runtime.graph_node_set_enabled(exec, nodes[i], false);
    left.emplace(nodes[i], i);
  }
  disabled_ = std::move(left);
}

}  // namespace reprise::graphs
