// SPDX-License-Identifier: Apache-2.0
#include "inspect/frozen/frozen_listener.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/framework_captures.h"
#include "inspect/frozen/frozen_text.h"
#include "memory/watches/block_watch.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

// Looks the words of the nodes up in all allocators. Words lent to generators of a framework are hidden there: they lie
// outside of the pool, in other places for each capture.
void find_memory(const captures::Capture& capture, memory::AllocationLog& log, NodeValues& values) {
  std::set<std::uintptr_t> words;
  for (const NodeValue& value : values.values)
    if (value.bytes == 8) words.insert(value.value);
  std::vector<memory::UsedAddress> addresses;
  for (const std::uintptr_t word : words) addresses.push_back({word});
  memory::watch_addresses(capture.device(), addresses, capture.pool());
  std::unordered_set<std::uintptr_t> hidden;
  for (const memory::UsedAddress& used : addresses) {
    if (used.hidden) hidden.insert(used.value);
    if (used.watch == nullptr) continue;
    const memory::BlockWatch& block = *used.watch;
    const auto begin = reinterpret_cast<std::uintptr_t>(block.address);
    values.addresses[used.value] =
        text::format("offset {} of {} bytes at {:#x}", used.value - begin, block.bytes, begin);
  }
  values.own.add(log.allocations(), std::move(hidden));
}

std::string member_text(const NodeValue& value) {
  if (value.parameter == NodeValue::all_arguments)
    return text::format("byte {} of the block of arguments", value.offset);
  return value.element < 0 ? std::string(value.member) : text::format("operation {}: {}", value.element, value.member);
}

}  // namespace

void FrozenListener::after_dry_run(graphs::CaptureListener& listener) {
  dry_run_ = std::move(dynamic_cast<FrozenListener&>(listener).values_);
}

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
  NodeValues values = read(capture, graph.template_graph);
  if (dry_run_ == nullptr)
    values_ = std::make_unique<NodeValues>(std::move(values));
  else
    compare(capture, values);
  dry_run_.reset();
  log_.reset();
  operators_.reset();
}

NodeValues FrozenListener::read(const captures::Capture& capture, GraphHandle template_graph) {
  NodeValues values = read_node_values(capture.device().backend(), template_graph);
  find_memory(capture, *log_, values);
  return values;
}

void FrozenListener::compare(const captures::Capture& capture, const NodeValues& second) {
  backend::Backend& backend = capture.device().backend();
  if (const std::string text = other_nodes_text(backend, *dry_run_, second); !text.empty()) throw UsageError(text);
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
  const Annotation* const annotation = annotations_.annotation_of(node.top);
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
