// SPDX-License-Identifier: Apache-2.0
#include "inspect/nodes/node_values.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include "backend/host_work.h"
#include "inspect/annotations/progress_marks.h"
#include "kernels/advance_kernel.h"
#include "kernels/batch_kernels.h"
#include "memory/watches/block_watch.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

class ValueReader {
 public:
  ValueReader(backend::Backend& backend, graphs::NodeChanges* known) : walk_(backend, ScannedNodes::all, known) {}

  NodeValues run(GraphHandle template_graph) {
    walk_.run(template_graph, [this](const backend::NodeParams& params, const KernelArguments& arguments) {
      property_ = 0;
      if (const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params))
        read(*kernel, arguments);
      else
        std::visit([&](const auto& of_type) { read(of_type); }, params);
    });
    found_.nodes = walk_.take_nodes();
    found_.omissions = walk_.take_omissions();
    return std::move(found_);
  }

 private:
  NodeValue& add(std::int32_t parameter, std::size_t offset, std::size_t bytes, const void* at) {
    NodeValue& value = found_.values.emplace_back();
    value.node = static_cast<std::uint32_t>(walk_.nodes().size() - 1);
    value.parameter = parameter;
    value.offset = static_cast<std::uint32_t>(offset);
    value.bytes = static_cast<std::uint32_t>(bytes);
    std::memcpy(&value.value, at, bytes);
    return value;
  }
  template <class T>
  void property(std::string_view name, const T& value) {
    static_assert(sizeof(T) <= 8);
    add(-1, property_++, sizeof(T), &value).member = name;
  }
  /// A member of a parameter, which begins at `start`.
  template <class T>
  void member(std::int32_t parameter, const void* start, const T& value, std::string_view name, std::int32_t element) {
    const auto offset = reinterpret_cast<const std::byte*>(&value) - static_cast<const std::byte*>(start);
    NodeValue& added = add(parameter, static_cast<std::size_t>(offset), sizeof(T), &value);
    added.member = name;
    added.element = element;
  }

  void read(const backend::KernelNodeParams& kernel, const KernelArguments& arguments) {
    read(kernel.config);
    if (arguments.own != nullptr) return read_own(*arguments.own, kernel.params);
    for (std::size_t i = 0; i < arguments.list.size(); ++i)
      read_argument(arguments.one_block ? NodeValue::all_arguments : static_cast<std::int32_t>(i), arguments.list[i]);
  }
  void read(const LaunchConfig& config) {
    property("grid.x", config.grid.x), property("grid.y", config.grid.y), property("grid.z", config.grid.z);
    property("block.x", config.block.x), property("block.y", config.block.y), property("block.z", config.block.z);
    property("shared_bytes", config.shared_bytes);
    property("cluster.x", config.cluster.x), property("cluster.y", config.cluster.y);
    property("cluster.z", config.cluster.z), property("cooperative", config.cooperative);
  }
  // By member, as far as their members are known here.
  void read_own(const KernelRecord& kernel, void* const* params) {
    if (backend::is_enqueued(kernel)) return read_enqueued(params, kernel.params.size());
    if (kernel.name == "reprise_advance_random") return read_advance(params);
    if (kernel.name == "reprise_copy_batch") return read_table<memory::CopyTable>(params[0]);
    if (kernel.name == "reprise_fill_batch") return read_table<memory::FillTable>(params[0]);
    if (kernel.name == "reprise_set_condition") return read_condition(params);
    for (std::size_t i = 0; i < kernel.params.size(); ++i)
      read_argument(static_cast<std::int32_t>(i), {kernel.params[i], static_cast<const std::byte*>(params[i])});
  }
  // A parameter of 8 bytes or less whose type is not known is taken for a number. A word of others may be two numbers.
  void read_argument(std::int32_t parameter, const KernelArguments::Argument& argument) {
    const KernelParam& param = argument.param;
    const bool part =
        param.size > 8 || parameter == NodeValue::all_arguments || (param.type != nullptr && !param.whole);
    for (std::size_t at = 0; at < param.size;) {
      std::size_t bytes = 8;
      while (at + bytes > param.size) bytes /= 2;
      NodeValue& value = add(parameter, at, bytes, argument.value + at);
      value.unwritten = !param.whole;
      value.part = part;
      value.no_padding = param.cleared;
      value.perhaps = part && !param.whole && !param.cleared;
      at += bytes;
    }
  }
  // Seed, offset and epoch belong to each replay.
  void read_advance(void* const* params) {
    add(0, 0, 8, params[0]).member = "words";
    const auto& by = *static_cast<const random::Advance*>(params[1]);
    member(1, &by, by.increment, "increment", -1);
  }
  // As properties of the conditional node, which comes after the first of these kernels. The others in a loop have the
  // same, and the rest is made for each capture.
  void read_condition(void* const* params) {
    conditions_.try_emplace(
        *static_cast<const backend::ConditionalHandle*>(params[0]),
        Condition{*static_cast<const std::uint32_t* const*>(params[1]), *static_cast<const std::uint32_t*>(params[3])});
  }
  template <class Table>
  void read_table(const void* parameter) {
    const auto& table = *static_cast<const Table*>(parameter);
    member(0, &table, table.count, "count", -1);
    for (unsigned i = 0; i < table.count; ++i) {
      const auto element = static_cast<std::int32_t>(i);
      const auto& op = table.ops[i];
      member(0, &table, op.destination, "destination", element);
      if constexpr (std::is_same_v<Table, memory::CopyTable>)
        member(0, &table, op.source, "source", element);
      else
        member(0, &table, op.pattern, "pattern", element);
      member(0, &table, op.bytes, "bytes", element);
    }
  }
  // The first parameter is the function object, another one in each capture.
  void read_enqueued(void* const* params, std::size_t count) {
    for (std::size_t i = 1; i < count; ++i) {
      const auto& operand = *static_cast<const MemoryAccess*>(params[i]);
      member(static_cast<std::int32_t>(i), &operand, operand.address, "address", -1);
      member(static_cast<std::int32_t>(i), &operand, operand.bytes, "bytes", -1);
    }
  }

  void read(const backend::MemcpyNodeParams& copy) {
    property("destination", copy.destination);
    property("source", copy.source);
    property("bytes", copy.bytes);
  }
  // Identity of arrays, and the place in them where the copy begins, are not known.
  void read(const backend::PitchedCopyNodeParams& copy) {
    property("destination", copy.destination.address);
    property("source", copy.source.address);
    property("row_bytes", copy.row_bytes);
    property("rows", copy.rows);
    property("destination_bytes", copy.destination.bytes);
    property("source_bytes", copy.source.bytes);
  }
  void read(const backend::MemsetNodeParams& set) {
    if (is_progress_word(set.destination)) return;  // each capture sets them to a value of its own
    property("destination", set.destination);
    property("value", set.value);
    property("element_bytes", set.element_bytes);
    property("count", set.count);
  }
  void read(const backend::PitchedSetNodeParams& set) {
    property("destination", set.destination);
    property("value", set.value);
    property("row_bytes", set.row_bytes);
    property("rows", set.rows);
    property("destination_bytes", set.bytes);
  }
  void read(const backend::MemoryAllocateNodeParams& allocation) {
    found_.own.add_node(reinterpret_cast<std::uintptr_t>(allocation.address), allocation.bytes);
    property("bytes", allocation.bytes);
  }
  void read(const backend::MemoryFreeNodeParams& free) { property("address", free.address); }
  void read(const backend::HostNodeParams& host) {
    property("function", host.function);  // its data is an object of the host, made for each capture
  }
  void read(const backend::EventRecordNodeParams& record) { property("event", record.event); }
  void read(const backend::EventWaitNodeParams& wait) { property("event", wait.event); }
  void read(const backend::ConditionalNodeParams& node) {
    const auto found = conditions_.find(node.handle);
    if (found == conditions_.end()) return;  // other code sets it
    property("condition", found->second.flag);
    if (node.type == backend::ConditionalType::while_) property("max_iterations", found->second.limit);
  }
  // Other nodes have no values, or such as each capture makes for itself.
  template <class Params>
  void read(const Params& /*params*/) {}

  GraphWalk walk_;
  /// As condition_record() describes them.
  struct Condition {
    const std::uint32_t* flag;
    std::uint32_t limit;
  };

  NodeValues found_;
  std::unordered_map<backend::ConditionalHandle, Condition> conditions_;  // those that were read
  std::uint32_t property_ = 0;  // of the current node: the number of the next one
};

}  // namespace

NodeValues read_node_values(backend::Backend& backend, GraphHandle template_graph, graphs::NodeChanges* known) {
  return ValueReader(backend, known).run(template_graph);
}

void find_memory(const Device& device, MempoolId pool, OwnMemory::Allocations allocations, NodeValues& values) {
  std::vector<std::uintptr_t> words;
  for (const NodeValue& value : values.values)
    if (value.bytes == 8) words.push_back(value.value);
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::vector<memory::UsedAddress> addresses;
  for (const std::uintptr_t word : words) addresses.push_back({word});
  memory::watch_addresses(device, addresses, {&pool, 1});
  std::unordered_set<std::uintptr_t> hidden;
  for (const memory::UsedAddress& used : addresses) {
    if (used.hidden) hidden.insert(used.value);
    if (used.watch == nullptr) continue;
    const memory::BlockWatch& block = *used.watch;
    const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
    values.addresses[used.value] =
        text::format("offset {} of {} bytes at {:#x}", used.value - begin, block.bytes, begin);
  }
  values.own.add(std::move(allocations), std::move(hidden));
}

void add_copied_values(NodeValues& values) {
  const std::size_t before = values.values.size();
  for (std::size_t i = 0; i + 1 < before; ++i) {
    const NodeValue source = values.values[i], size = values.values[i + 1];
    if (source.parameter >= 0 || source.member != "source" || size.member != "bytes") continue;
    if (!values.own.is_value(source.value, size.value)) continue;
    const auto* const bytes = reinterpret_cast<const std::byte*>(source.value);
    // One number, or several, between which there may be bytes that no code wrote.
    const bool part = size.value > 8 || !std::has_single_bit(size.value);
    for (std::size_t at = 0; at < size.value;) {
      const auto word = static_cast<std::uint32_t>(std::min<std::size_t>(std::bit_floor(size.value - at), 8));
      NodeValue& value = values.values.emplace_back(NodeValue{.node = source.node});
      value.offset = static_cast<std::uint32_t>(NodeValue::copied_value_begins + at);
      value.bytes = word;
      std::memcpy(&value.value, bytes + at, word);
      value.member = NodeValue::copied_value;
      value.unwritten = true;
      value.part = value.perhaps = part;
      at += word;
    }
  }
  if (values.values.size() == before) return;
  std::ranges::stable_sort(values.values, {},
                           [](const NodeValue& v) { return std::tuple(v.node, v.parameter, v.offset); });
}

}  // namespace reprise::inspect
