// SPDX-License-Identifier: Apache-2.0
#include "inspect/frozen/frozen_listener.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/capture/framework_captures.h"
#include "inspect/frozen/frozen_text.h"
#include "inspect/nodes/graph_walk.h"
#include "text/format.h"

namespace reprise::inspect {

void FrozenListener::begin(captures::Capture& capture) {
  if (!capture.options().check_frozen_values) {
    dry_run_.reset();  // of a capture that failed to begin
    return;
  }
  if (const auto* const framework = graphs::framework_captures()) operators_ = framework->make_operator_source(capture);
  log_ = memory::AllocationLog::open(capture);
}

void FrozenListener::started(captures::Capture& capture) {
  if (operators_ != nullptr) operators_->started(capture);
}

void FrozenListener::ended(captures::Capture& capture, graphs::CapturedGraph& graph) {
  if (log_ == nullptr) return;
  if (operators_ != nullptr) operators_->ended(graph.template_graph);
  NodeValues values = read(capture, graph);
  if (dry_run_ == nullptr)
    values_ = std::make_shared<const NodeValues>(std::move(values));
  else
    compare(capture, values);
  dry_run_.reset();
  log_.reset();
  operators_.reset();
}

NodeValues FrozenListener::read(const captures::Capture& capture, const graphs::CapturedGraph& graph) {
  NodeValues values = read_node_values(capture.device().backend(), graph.template_graph, graph.known);
  find_memory(capture.device(), capture.pool(), log_->allocations(), values);
  add_copied_values(values);
  if (operators_ == nullptr) return values;
  for (NodeValue& value : values.values)
    if (value.unwritten && value.bytes == 8 && operators_->was_given(values.nodes[value.node].top, value.value))
      value.unwritten = value.perhaps = false;
  return values;
}

void FrozenListener::compare(const captures::Capture& capture, const NodeValues& second) {
  backend::Backend& backend = capture.device().backend();
  require_same_nodes(backend, "GraphOptions::check_frozen_values", dry_run_->nodes, second.nodes);
  const std::vector<Omission> omissions = omissions_of_both(dry_run_->omissions, second.omissions);
  if (const std::string text = omissions_text(backend, second.nodes, omissions); !text.empty())
    warn(text::format("GraphOptions::check_frozen_values may have missed values: {}.", text));
  std::vector<FrozenValue> frozen;
  for (const ChangedValue& changed : changed_values(*dry_run_, second))
    frozen.push_back(frozen_value(backend, second.nodes[changed.value.node], changed));
  if (frozen.empty()) return;
  std::stable_partition(frozen.begin(), frozen.end(), [](const FrozenValue& value) { return !value.perhaps; });
  const std::string& name = capture.options().name;
  if (frozen.front().perhaps) return warn(perhaps_frozen_text(frozen, name));
  const std::string text = frozen_values_text(frozen, name);
  throw FrozenValuesError(text, std::move(frozen));
}

FrozenValue FrozenListener::frozen_value(backend::Backend& backend, const ScannedNode& node,
                                         const ChangedValue& changed) const {
  const NodeValue& value = changed.value;
  const Annotation* const annotation = annotations_.annotation_of(node);
  FrozenValue frozen;
  frozen.node = node_text(backend, node, annotation);
  if (annotation != nullptr) frozen.annotation = *annotation;
  if (operators_ != nullptr) frozen.operator_name = operators_->operator_of(node.top);
  const bool in_block = value.parameter == NodeValue::all_arguments;
  if (value.parameter >= 0) frozen.offset = value.offset;
  if (value.parameter >= 0 && !in_block) frozen.parameter = static_cast<std::size_t>(value.parameter);
  frozen.member = member_text(value);
  frozen.bytes = value.bytes;
  frozen.first = changed.first;
  frozen.second = value.value;
  frozen.first_memory = changed.first_memory;
  frozen.second_memory = changed.second_memory;
  frozen.perhaps = value.perhaps;
  return frozen;
}

void FrozenListener::reset() noexcept {
  log_.reset();
  operators_.reset();
  values_.reset();
  dry_run_.reset();
}

}  // namespace reprise::inspect
