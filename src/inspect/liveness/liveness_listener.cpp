// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/liveness_listener.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "backend/check.h"
#include "graph/cuda_graph_impl.h"
#include "graph/framework_captures.h"
#include "inspect/liveness/liveness_text.h"
#include "inspect/liveness/node_text.h"
#include "memory/allocator_impl.h"
#include "text/format.h"

namespace reprise::inspect {

using captures::Capture;
using memory::BlockWatch;
using memory::UsedAddress;

namespace {

bool looks_for_inputs(const GraphOptions& options) noexcept {
  return options.check_input_liveness || options.inputs.retain;
}

// Each address once, in ascending order.
std::vector<UsedAddress> addresses_in(const GraphScan& scan) {
  std::set<std::uintptr_t> values;
  for (const ScannedWord& word : scan.words) {
    values.insert(word.value);
    values.insert(word.in_dry_run);
  }
  for (const GraphScan::Range& own : scan.own)
    values.erase(values.lower_bound(own.begin), values.lower_bound(own.begin + own.bytes));
  std::vector<UsedAddress> addresses;
  for (const std::uintptr_t value : values) addresses.push_back({value});
  return addresses;
}

}  // namespace

/// An input: memory of an allocator if there is a watch, else of the driver.
struct LivenessListener::Finding {
  std::shared_ptr<BlockWatch> watch;
  std::uint64_t id = 0;
  GraphInput input = {};
};

void LivenessListener::after_dry_run(graphs::CaptureListener& listener) {
  dry_run_ = std::move(dynamic_cast<LivenessListener&>(listener).scan_);
}

void LivenessListener::begin(Capture& capture) {
  const GraphOptions& options = capture.options();
  if (!looks_for_inputs(options) && (options.inputs.scope != Liveness::allocator || options.inputs.confirm))
    throw UsageError(
        text::format("GraphOptions::inputs.{} changes how inputs are found, and does nothing alone: set "
                     "check_input_liveness or inputs.retain as well, or remove it.",
                     options.inputs.confirm ? "confirm" : "scope"));
  if (!options.inputs.confirm) dry_run_.reset();  // of a capture that failed to begin
  if (!looks_for_inputs(options)) return;
  if (const auto* const framework = graphs::framework_captures()) source_ = framework->make_input_source(capture);
  free_log_.emplace(capture);
}

void LivenessListener::started(Capture& capture) {
  if (source_ != nullptr) source_->started(capture);
}

void LivenessListener::ended(Capture& capture, graphs::CapturedGraph& graph) {
  if (!free_log_) return;
  backend_ = &capture.device().backend();
  name_ = capture.options().name;
  if (source_ != nullptr) source_->ended(graph.template_graph);
  GraphScan scan = scan_graph(*backend_, graph.template_graph);
  if (capture.options().inputs.confirm && dry_run_ == nullptr) {
    scan_ = std::make_unique<GraphScan>(std::move(scan));
  } else {
    if (dry_run_ != nullptr) scan.confirm(*dry_run_);
    look(capture, scan);
    list_omissions(scan, graph);
  }
  dry_run_.reset();
  free_log_.reset();
  source_.reset();
  if (retained_ != nullptr && !retained_->empty()) graph.resources.push_back(std::move(retained_));
  if (!blocks_.empty() || !ranges_.empty()) graph.in_replays.push_back(this);
}

// Looks the words of the nodes up in all allocators.
std::vector<UsedAddress> LivenessListener::find_addresses(const Capture& capture, const GraphScan& scan) {
  std::vector<UsedAddress> addresses = addresses_in(scan);
  memory::watch_addresses(capture.device(), addresses, capture.pool());
  if (source_ != nullptr) source_->find(addresses);
  free_log_->find(addresses);
  return addresses;
}

bool LivenessListener::is_used(const ScannedNode& node, const Finding& finding, std::uintptr_t address) {
  return finding.watch == nullptr || source_ == nullptr || source_->is_used(node.top, *finding.watch, address);
}

void LivenessListener::look(const Capture& capture, const GraphScan& scan) {
  const std::vector<UsedAddress> addresses = find_addresses(capture, scan);

  // By address and watch, since the same memory may have been freed and be in use again.
  std::map<std::pair<const void*, const BlockWatch*>, Finding> found;
  std::map<std::uintptr_t, Finding*> by_address;
  for (const UsedAddress& used : addresses) {
    if (used.watch != nullptr) {
      const BlockWatch& watch = *used.watch;
      Finding finding{used.watch, 0, {watch.address, watch.bytes, {}, false, watch.created}};
      by_address[used.value] = &found.try_emplace({watch.address, &watch}, std::move(finding)).first->second;
    } else if (capture.options().inputs.scope == Liveness::all && !used.in_allocator) {
      backend::PointerInfo info;
      const auto* const address = reinterpret_cast<const void*>(used.value);
      backend::Checked(*backend_).pointer_info(address, &info);
      if (info.kind == backend::MemoryKind::unregistered) continue;
      Finding finding{nullptr, info.id, {info.base, info.bytes}};
      by_address[used.value] = &found.try_emplace({info.base, nullptr}, std::move(finding)).first->second;
    }
  }
  // A node is named once for each way in which it uses the memory.
  std::set<std::tuple<const Finding*, std::uint32_t, std::uint32_t>> named;
  for (const ScannedWord& word : scan.words) {
    const auto at = by_address.find(word.value);
    if (at == by_address.end()) continue;
    // Discarded if it is an address in one of the two captures only; a body may use other memory each time.
    if (word.in_dry_run != word.value && !by_address.contains(word.in_dry_run)) continue;
    const ScannedNode& node = scan.nodes[word.node];
    if (!is_used(node, *at->second, word.value)) continue;
    const std::uint32_t way = node.type == backend::NodeType::kernel ? 0 : word.place;
    if (named.emplace(at->second, word.node, way).second)
      at->second->input.nodes.push_back(use_text(*backend_, node, word.place, annotations_.annotation_of(node.top)));
  }
  inputs_.emplace();
  graph_.emplace(WatchedPointers::Graph{capture.device(), capture.pool(), capture.options().inputs.scope});
  retained_ = std::make_shared<memory::RetainedBlocks>();
  for (auto& entry : found)
    if (!entry.second.input.nodes.empty()) add(capture.options(), std::move(entry.second));
}

void LivenessListener::add(const GraphOptions& options, Finding&& finding) {
  const std::size_t index = inputs_->size();
  if (finding.watch == nullptr) {
    ranges_.push_back({index, finding.id});
    queries_ = true;
  } else {
    finding.input.retained = options.inputs.retain && retained_->add(finding.watch);
    if (!finding.input.retained || finding.watch->owner->frees_retained()) {
      queries_ |= finding.watch->owner->needs_query();
      blocks_.push_back({index, std::move(finding.watch)});
    }
  }
  inputs_->push_back(std::move(finding.input));
}

void LivenessListener::list_omissions(const GraphScan& scan, graphs::CapturedGraph& graph) {
  for (const Omission& omission : scan.omissions) {
    const ScannedNode& node = scan.nodes[omission.node];
    const Annotation* const annotation = annotations_.annotation_of(node.top);
    inputs_->push_back({nullptr, 0, {node_text(*backend_, node, annotation)}, false, {}, omission.why});
    graph.notes.push_back(
        text::format("Inputs of the graph may be missing: {}.", omission_text(*backend_, node, omission, annotation)));
  }
}

void LivenessListener::check(std::uint64_t frees, const StreamRef& stream) {
  std::vector<DeadInput> dead;
  for (const Block& block : blocks_) {
    memory::BlockOwner& owner = *block.watch->owner;
    if (owner.needs_query()) owner.query(*block.watch);
    if (block.watch->freed.load(std::memory_order_acquire))
      dead.push_back({(*inputs_)[block.input], block.watch->freed_by, owner.is_given_out_again(*block.watch)});
  }
  if (!pointers_.empty()) {
    pointers_.check(*graph_, stream, dead);
    queries_ |= pointers_.queries();
  }
  if (dead.empty()) seen_frees_ = frees;
  for (const Range& range : ranges_) {
    const GraphInput& input = (*inputs_)[range.input];
    backend::PointerInfo info;
    backend::Checked(*backend_).pointer_info(input.address, &info);
    const bool registered = info.kind != backend::MemoryKind::unregistered;
    if (!registered || info.id != range.id) dead.push_back({input, {}, registered});
  }
  if (dead.empty()) return;
  std::ranges::stable_sort(dead, std::less<>{}, &GraphInput::address);
  const std::vector<GraphInput> all = *inputs();
  const auto memory = std::ranges::count_if(all, [](const GraphInput& input) { return input.address != nullptr; });
  const std::string text = dead_inputs_text(dead, static_cast<std::size_t>(memory), name_);
  throw DeadInputError(text, std::move(dead));
}

void LivenessListener::watch_pointers(const Device& device, MempoolId pool, const void* const* table,
                                      std::size_t count) {
  pointers_.add({device, pool, graph_->scope}, table, count);
  seen_frees_ = 0;  // the next replay checks
}

void LivenessListener::pointers_changed() noexcept {
  pointers_.changed();
  seen_frees_ = 0;
}

std::optional<std::vector<GraphInput>> LivenessListener::inputs() const {
  if (!inputs_) return std::nullopt;
  std::vector<GraphInput> all = *inputs_;
  const auto unknown = std::ranges::find(all, nullptr, &GraphInput::address);  // at the end
  std::vector<GraphInput> nodes(std::make_move_iterator(unknown), std::make_move_iterator(all.end()));
  all.erase(unknown, all.end());
  pointers_.list(all);
  std::ranges::stable_sort(all, std::less<>{}, &GraphInput::address);
  std::ranges::move(nodes, std::back_inserter(all));
  return all;
}

void LivenessListener::reset() noexcept {
  free_log_.reset();
  source_.reset();
  scan_.reset();
  dry_run_.reset();
  inputs_.reset();
  blocks_.clear();
  ranges_.clear();
  graph_.reset();
  pointers_.clear();
  retained_.reset();
  queries_ = false;
  seen_frees_ = 0;
}

}  // namespace reprise::inspect

namespace reprise {
namespace {

[[noreturn]] void refuse_without_inputs(const char* call) {
  throw UsageError(
      text::format("{} needs a graph that was captured with GraphOptions::check_input_liveness or inputs.retain, and "
                   "this one was not: its inputs were not looked for.",
                   call));
}

}  // namespace

std::vector<GraphInput> CUDAGraph::inputs() const {
  constexpr const char* call = "CUDAGraph::inputs";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);  // a replay may read tables
  impl.require(call, {Impl::State::captured, Impl::State::ready});
  auto inputs = impl.listeners.liveness().inputs();
  if (!inputs) refuse_without_inputs(call);
  return *std::move(inputs);
}

void CUDAGraph::watch_pointers(const void* const* device_table, std::size_t count) {
  constexpr const char* call = "CUDAGraph::watch_pointers";
  Impl& impl = Impl::of(*this, call);
  impl.refuse_in_own_hook(call);
  const Impl::LaunchLock lock(impl);
  impl.require(call, {Impl::State::captured, Impl::State::ready});
  inspect::LivenessListener& liveness = impl.listeners.liveness();
  if (!liveness.inputs()) refuse_without_inputs(call);
  impl.in_replays.reserve(impl.in_replays.size() + 1);
  liveness.watch_pointers(*impl.device, impl.pool, device_table, count);
  if (std::ranges::find(impl.in_replays, &liveness) == impl.in_replays.end()) impl.in_replays.push_back(&liveness);
  impl.replays_notify = true;
}

void CUDAGraph::pointers_changed() {
  constexpr const char* call = "CUDAGraph::pointers_changed";
  Impl& impl = Impl::of(*this, call);
  impl.refuse_in_own_hook(call);
  const Impl::LaunchLock lock(impl);
  impl.require(call, {Impl::State::captured, Impl::State::ready});
  impl.listeners.liveness().pointers_changed();
}

void detail::check_pointer_count(std::size_t count, std::size_t size) {
  if (count <= size) return;
  throw UsageError(text::format(
      "CUDAGraph::watch_pointers: expected at most as many pointers as the buffer has, {}; found a count of "
      "{}.",
      size, count));
}

}  // namespace reprise
