// SPDX-License-Identifier: Apache-2.0

#include "inspect/diff/graph_differences.h"
#include "reprise/compare.h"
#include "text/format.h"

// The result of compare(), as text.

namespace reprise {
namespace {

std::string address_text(const void* address) {
  return text::format("{:#x}", reinterpret_cast<std::uintptr_t>(address));
}

std::string node_of(const FirstDifference& difference) {
  return (difference.first ? difference.first : difference.second).value_or(ComparedNode{}).str();
}

std::string what_differs(const FirstDifference& difference) {
  const std::string first = address_text(difference.address), second = address_text(difference.second_address);
  switch (difference.kind) {
    case FirstDifferenceKind::node:
      if (!difference.second) return "only in the graph";
      if (!difference.first) return "only in the new capture";
      return text::format("differs in type or function from the {} in the new capture", difference.second->str());
    case FirstDifferenceKind::stale_pointer:
      if (difference.address == nullptr)
        return text::format("the new capture writes memory that was freed, {}", second);
      if (difference.second_address == nullptr) return text::format("writes memory that was freed, {}", first);
      return text::format("uses memory that was freed, {}; the new capture uses {}", first, second);
    case FirstDifferenceKind::destination:
      return text::format("writes {} bytes at {}, the new capture at {}", difference.bytes, first, second);
    case FirstDifferenceKind::not_repeatable:
      return "left other bytes when it was executed again with the same memory";
    case FirstDifferenceKind::result:
      break;
  }
  const std::string where =
      difference.address == difference.second_address
          ? text::format("the {} bytes from {} on", difference.bytes, first)
          : text::format("the {} bytes from {} on, in the new capture from {} on", difference.bytes, first, second);
  return text::format("left other values in {}: {}, then {}", where, difference.first_value, difference.second_value);
}

}  // namespace

std::string FirstDifference::str() const {
  std::string text = text::format("{}: {}", node_of(*this), what_differs(*this));
  if (!parameters.empty()) text += "\n" + inspect::differences_text(parameters);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string Comparison::str() const {
  std::string text;
  if (difference) text += "First difference: " + difference->str() + "\n";
  if (same()) text += "No difference was found.\n";
  if (!difference && !parameters.empty())
    text += "Parameters and dependencies differ, without a difference in what was written:\n" +
            inspect::differences_text(parameters);
  for (const std::string& note : notes) text += note + "\n";
  return text + text::format("Compared: {} nodes; {} bytes were saved and restored.\n", nodes, saved_bytes);
}

}  // namespace reprise
