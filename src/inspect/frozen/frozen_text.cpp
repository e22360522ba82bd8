// SPDX-License-Identifier: Apache-2.0
#include "inspect/frozen/frozen_text.h"

#include <algorithm>
#include <bit>

#include "text/format.h"

namespace reprise::inspect {
namespace {

constexpr std::size_t most_values = 20;  // of each kind, in a text

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

constexpr const char* perhaps_reason =
    "these lie in structs, in parameters of more than 8 bytes, in copied values, or in blocks of arguments, whose "
    "members are unknown, and may be bytes that no code wrote";

}  // namespace

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

std::string member_text(const NodeValue& value) {
  if (value.parameter == NodeValue::all_arguments)
    return text::format("byte {} of the block of arguments", value.offset);
  if (value.member == NodeValue::copied_value && value.part)
    return text::format("{}, offset {}", value.member, value.offset - NodeValue::copied_value_begins);
  return value.element < 0 ? std::string(value.member) : text::format("operation {}: {}", value.element, value.member);
}

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
      "GraphOptions::check_frozen_values: {} {} of the graph{} between two captures of the body; {}. Each replay "
      "repeats a value that the host computed.\n{}",
      values.size(), values.size() == 1 ? "word" : "words",
      graph_text(name) + (values.size() == 1 ? " differs" : " differ"), perhaps_reason, list_text(values));
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
