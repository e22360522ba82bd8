// SPDX-License-Identifier: Apache-2.0
#include "inspect/frozen/node_values.h"

#include <cstring>
#include <type_traits>
#include <variant>

#include "backend/host_work.h"
#include "kernels/advance_kernel.h"
#include "kernels/batch_kernels.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

class ValueReader {
 public:
  explicit ValueReader(backend::Backend& backend) : walk_(backend) {}

  NodeValues run(GraphHandle template_graph) {
    walk_.run(template_graph,
              [&](const ScannedNode&, const backend::NodeParams& params, const KernelArguments& arguments) {
                property_ = 0;
                if (const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params))
                  read(*kernel, arguments);
                else
                  std::visit([&](const auto& of_type) { read(of_type); }, params);
              });
    if (const std::string text = walk_.omissions_text(); !text.empty())
      warn(text::format("GraphOptions::check_frozen_values may have missed values: {}.", text));
    found_.nodes = walk_.take_nodes();
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
    const LaunchConfig& config = kernel.config;
    property("grid.x", config.grid.x), property("grid.y", config.grid.y), property("grid.z", config.grid.z);
    property("block.x", config.block.x), property("block.y", config.block.y), property("block.z", config.block.z);
    property("shared_bytes", config.shared_bytes);
    if (arguments.own != nullptr) return read_own(*arguments.own, kernel.params);
    for (std::size_t i = 0; i < arguments.list.size(); ++i)
      read_argument(arguments.one_block ? NodeValue::all_arguments : static_cast<std::int32_t>(i), arguments.list[i]);
  }
  // By member, as far as their members are known here.
  void read_own(const KernelRecord& kernel, void* const* params) {
    if (backend::is_enqueued(kernel)) return read_enqueued(params, kernel.params.size());
    if (kernel.name == "reprise_advance_random") return read_advance(params);
    if (kernel.name == "reprise_copy_batch") return read_table<memory::CopyTable>(params[0]);
    if (kernel.name == "reprise_fill_batch") return read_table<memory::FillTable>(params[0]);
    for (std::size_t i = 0; i < kernel.params.size(); ++i)
      read_argument(static_cast<std::int32_t>(i), {kernel.params[i], static_cast<const std::byte*>(params[i])});
  }
  // A parameter of 8 bytes or less is taken for a number, which has no padding.
  void read_argument(std::int32_t parameter, const KernelArguments::Argument& argument) {
    const KernelParam& param = argument.param;
    for (std::size_t at = 0; at < param.size;) {
      std::size_t bytes = 8;
      while (at + bytes > param.size) bytes /= 2;
      NodeValue& value = add(parameter, at, bytes, argument.value + at);
      value.part = param.size > 8 || parameter == NodeValue::all_arguments;
      value.perhaps = value.part && !param.whole;
      at += bytes;
    }
  }
  // Seed, offset and epoch belong to each replay.
  void read_advance(void* const* params) {
    add(0, 0, 8, params[0]).member = "words";
    const auto& by = *static_cast<const random::Advance*>(params[1]);
    member(1, &by, by.increment, "increment", -1);
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
  void read(const backend::MemsetNodeParams& set) {
    property("destination", set.destination);
    property("value", set.value);
    property("element_bytes", set.element_bytes);
    property("count", set.count);
  }
  void read(const backend::MemoryAllocateNodeParams& allocation) {
    found_.own.add_node(reinterpret_cast<std::uintptr_t>(allocation.address), allocation.bytes);
    property("bytes", allocation.bytes);
  }
  void read(const backend::MemoryFreeNodeParams& free) { property("address", free.address); }
  // Host functions and their data are objects of the host, made for each capture; other nodes have no values.
  template <class Params>
  void read(const Params& /*params*/) {}

  GraphWalk walk_;
  NodeValues found_;
  std::uint32_t property_ = 0;  // of the current node: the number of the next one
};

}  // namespace

NodeValues read_node_values(backend::Backend& backend, GraphHandle template_graph) {
  return ValueReader(backend).run(template_graph);
}

}  // namespace reprise::inspect
