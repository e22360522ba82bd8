// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/liveness_text.h"

#include <algorithm>
#include <span>
#include <vector>

#include "text/format.h"

namespace reprise::inspect {
namespace {

constexpr std::size_t most_inputs = 10;
constexpr std::size_t most_nodes = 8;  // of one input

std::string nodes_text(const std::vector<std::string>& nodes) {
  const std::size_t shown = std::min(nodes.size(), most_nodes);
  std::string text = text::join(std::span(nodes).first(shown), ", ");
  if (shown < nodes.size()) text += text::format(" and {} more", nodes.size() - shown);
  return text;
}

void add_stack(std::string& text, const char* what, const std::vector<std::string>& stack) {
  if (stack.empty()) return;
  text += text::format("    {} by:\n", what);
  for (const std::string& line : stack) text += text::format("      {}\n", line);
}

void add_input(std::string& text, const DeadInput& input) {
  const std::string size = input.bytes != 0 ? text::format("{} bytes", input.bytes) : std::string("memory");
  text += text::format("  {} at {}: {}; used by {}\n", size, input.address,
                       input.given_out_again ? "freed and allocated again" : "freed", nodes_text(input.nodes));
  add_stack(text, "allocated", input.created);
  add_stack(text, "freed", input.freed);
}

}  // namespace

std::string dead_inputs_text(const DeadGraph& graph, std::span<const DeadInput> dead) {
  const std::size_t counted = graph.inputs != 0 ? graph.inputs : dead.size();
  std::string text = text::format(
      "{}: {}{} {} of the graph{} {} dead: it reads or writes memory that was freed{}. Nothing was launched. Keep the "
      "memory as long as the graph is replayed, {}, or capture again.\n",
      graph.call, dead.size(), graph.inputs != 0 ? text::format(" of the {}", graph.inputs) : "",
      counted == 1 ? "input" : "inputs", graph.name.empty() ? "" : " `" + graph.name + "`",
      dead.size() == 1 ? "is" : "are", graph.inputs != 0 ? "" : " before its capture ended",
      graph.retains_them ? "which GraphOptions::inputs.retain cannot do for this memory"
                         : "let the graph keep it (GraphOptions::inputs.retain)");
  for (const DeadInput& input : dead.first(std::min(dead.size(), most_inputs))) add_input(text, input);
  if (dead.size() > most_inputs) text += text::format("  and {} more\n", dead.size() - most_inputs);
  const auto has_stack = [](const DeadInput& input) { return !input.created.empty() || !input.freed.empty(); };
  if (std::ranges::none_of(dead, has_stack))
    text +=
        "  To see where it was allocated and freed: set REPRISE_MEMORY_STACKS=1, or call "
        "record_allocation_stacks(true) first, for "
        "memory of CachingAllocator.\n";
  return text;
}

}  // namespace reprise::inspect
