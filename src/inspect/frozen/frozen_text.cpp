// SPDX-License-Identifier: Apache-2.0
#include "inspect/frozen/frozen_text.h"

#include <algorithm>
#include <bit>

#include "inspect/liveness/graph_walk.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

constexpr std::size_t most_values = 20;  // of each kind, in a text

// In hexadecimal, as a signed integer, and as a floating-point number where its size is that of one; an address with
// its memory.
std::string value_text(std::uint64_t value, std::size_t bytes, const std::string& memory) {
  if (!memory.empty()) return text::format("{:#x} ({})", value, memory);
  if (bytes == 0 || bytes > 8) return text::format("{:#x}", value);  // of no size that a value has
  const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes);
  const auto number = static_cast<std::int64_t>(value << unused) >> unused;
  if (bytes == 4)
    return text::format("{:#x} ({}, {})", value, number, std::bit_cast<float>(static_cast<std::uint32_t>(value)));
  if (bytes == 8) return text::format("{:#x} ({}, {})", value, number, std::bit_cast<double>(value));
  return text::format("{:#x} ({})", value, number);
}

std::string list_text(std::span<const FrozenValue> values) {
  std::string text;
  for (const FrozenValue& value : values.first(std::min(values.size(), most_values)))
    text += text::format("  {}\n", value.str());
  if (values.size() > most_values) text += text::format("  and {} more\n", values.size() - most_values);
  return text;
}

std::string graph_text(const std::string& name) {
  return name.empty() ? "" : " `" + name + "`";
}

std::string scanned_text(backend::Backend& backend, const std::vector<ScannedNode>& nodes, std::size_t index) {
  return index < nodes.size() ? node_text(backend, nodes[index], nullptr) : "nothing";
}

constexpr const char* perhaps_reason =
    "these lie in parameters of more than 8 bytes, or in blocks of arguments, whose members are unknown, and may be "
    "bytes that no code wrote";

}  // namespace

std::string frozen_values_text(std::span<const FrozenValue> values, const std::string& name) {
  const auto certain_end = std::ranges::find_if(values, &FrozenValue::perhaps);
  const auto count = static_cast<std::size_t>(certain_end - values.begin());
  std::string text = text::format(
      "capture: {} {} of the graph{} between two captures of the body (GraphOptions::check_frozen_values): the "
      "host computed {}, and each replay would repeat what the second capture found. Nothing was captured. Keep what "
      "changes in device memory that is written before each replay, or remove the option if it may stay as it is.\n",
      count, count == 1 ? "value" : "values", graph_text(name) + (count == 1 ? " differs" : " differ"),
      count == 1 ? "it" : "them");
  text += list_text(values.first(count));
  if (count < values.size())
    text += text::format("  Perhaps also; {}:\n{}", perhaps_reason, list_text(values.subspan(count)));
  return text;
}

std::string perhaps_frozen_text(std::span<const FrozenValue> values, const std::string& name) {
  return text::format(
      "GraphOptions::check_frozen_values: {} {} of the graph{} between two captures of the body; {}. If it is a value "
      "that the host computed, each replay repeats it.\n{}",
      values.size(), values.size() == 1 ? "word" : "words",
      graph_text(name) + (values.size() == 1 ? " differs" : " differ"), perhaps_reason, list_text(values));
}

std::string other_nodes_text(backend::Backend& backend, const NodeValues& first, const NodeValues& second) {
  const auto same_work = [](const ScannedNode& a, const ScannedNode& b) {
    return a.type == b.type && a.function == b.function && a.number == b.number;
  };
  const auto [at, other] = std::ranges::mismatch(first.nodes, second.nodes, same_work);
  if (at == first.nodes.end() && other == second.nodes.end()) return "";
  const auto index = static_cast<std::size_t>(at - first.nodes.begin());
  return text::format(
      "GraphOptions::check_frozen_values needs a body that captures the same nodes each time. The first difference: {} "
      "in the first capture, {} in the second ({} and {} nodes in all). Nothing was captured. If the body does "
      "something only the first time, set GraphOptions::warmup to 1, which runs it once before; if its work depends on "
      "the iteration, capture a graph for each case.",
      scanned_text(backend, first.nodes, index), scanned_text(backend, second.nodes, index), first.nodes.size(),
      second.nodes.size());
}

}  // namespace reprise::inspect

namespace reprise {

std::string FrozenValue::str() const {
  std::string place;
  if (parameter) place = text::format(", parameter {}, offset {}", *parameter, offset);
  if (!member.empty()) place += text::format(", {}", member);
  return text::format("{}{}{} ({} {}): {}, then {}", node, operator_name.empty() ? "" : ", operator " + operator_name,
                      place, bytes, bytes == 1 ? "byte" : "bytes", inspect::value_text(first, bytes, first_memory),
                      inspect::value_text(second, bytes, second_memory));
}

}  // namespace reprise
