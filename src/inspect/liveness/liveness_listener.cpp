// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/liveness_listener.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "backend/check.h"
#include "captures/capture.h"
#include "captures/child_node.h"
#include "graph/capture/framework_captures.h"
#include "graph/cuda_graph_impl.h"
#include "graph/listeners/child_listener.h"
#include "graph/listeners/pool_listener.h"
#include "graph/resources/graph_resources.h"
#include "inspect/liveness/liveness_text.h"
#include "inspect/nodes/node_text.h"
#include "memory/allocator_impl.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

namespace reprise::inspect {

using captures::Capture;
using memory::BlockWatch;
using memory::UsedAddress;

namespace {

bool looks_for_inputs(const GraphOptions& options) noexcept {
  return options.check_input_liveness || options.inputs.retain;
}

bool is_freed(BlockWatch& watch) {
  if (watch.owner->needs_query()) watch.owner->query(watch);
  return watch.freed.load(std::memory_order_acquire);
}

// The word is, or is a part of, a value that was set.
bool is_set(const ScannedNode& node, const ScannedWord& word, std::span<const graphs::SetPlace> set) {
  using Of = graphs::NodePlace::Of;
  return std::ranges::any_of(set, [&](const graphs::SetPlace& each) {
    if (each.node != node.handle) return false;
    if (node.type == backend::NodeType::kernel)
      return word.place < each.place.offset + each.place.bytes && each.place.offset < word.place + sizeof word.value;
    return (each.place.of == Of::source) == (node.type == backend::NodeType::memcpy && word.place == copy_source);
  });
}

// Each address once, in ascending order, but for words whose memory is known.
template <class IsKnown>
std::vector<UsedAddress> addresses_in(const GraphScan& scan, const IsKnown& is_known) {
  std::set<std::uintptr_t> values;
  for (const ScannedWord& word : scan.words)
    if (!is_known(word)) values.insert(word.value);
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
  bool was_free = false;  // in a block that was free when the capture ended
};

void LivenessListener::begin(Capture& capture) {
  const GraphOptions& options = capture.options();
  if (!looks_for_inputs(options) && options.inputs.scope != Liveness::allocator)
    throw UsageError(
        "GraphOptions::inputs.scope refines the search for inputs, and has no effect alone: set check_input_liveness "
        "or inputs.retain as well, or remove it.");
  looks_for_all_ = looks_for_inputs(options);
  const auto* const framework = graphs::framework_captures();
  if (framework != nullptr && (looks_for_all_ || looks_for_freed_tensors_))
    source_ = framework->make_input_source(capture);
  using Which = memory::FreeLog::Which;
  free_log_.emplace(capture, options.inputs.retain ? Which::kept : looks_for_all_ ? Which::all : Which::common);
}

void LivenessListener::started(Capture& capture) {
  if (source_ != nullptr) source_->started(capture);
}

void LivenessListener::ended(Capture& capture, graphs::CapturedGraph& graph) {
  name_ = capture.options().name;
  if (!looks_for_all_ && source_ == nullptr && free_log_->empty()) return free_log_.reset();
  backend_ = &capture.device().backend();
  options_ = capture.options().inputs;
  if (source_ != nullptr) source_->ended(graph.template_graph);
  allocations_ = memory::AllocationLog::allocations_of(capture);
  const GraphScan scan = scan_graph(*backend_, graph.template_graph, ScannedNodes::all, graph.known);
  allocators_.emplace(Allocators{capture.device(), capture.pools(), std::move(source_)});
  Inputs inputs = look(scan, {});
  if (allocators_->source != nullptr) allocators_->source->found();
  if (looks_for_all_)
    list_omissions(inputs, scan, 0, &graph.notes);
  else if (inputs.list.empty())
    return in_recording_ ? free_log_.reset() : reset();
  if (options_.retain) {
    retained_ = std::make_shared<Retained>(Retained{inputs.retained});
    graph.resources.push_back(retained_);
  }
  keep(std::move(inputs));
  free_log_.reset();
  if (!blocks_.empty() || !ranges_.empty()) graph.in_replays.push_back(this);
}

bool LivenessListener::nodes_changed(GraphHandle template_graph, graphs::NodeChanges& known_nodes,
                                     graphs::GraphResources& resources, std::span<const graphs::SetPlace> set) {
  if (!inputs_) return false;
  const auto known = std::ranges::count(*inputs_, nullptr, &GraphInput::address);
  const GraphScan scan = scan_graph(*backend_, template_graph, ScannedNodes::all, &known_nodes);
  Inputs inputs = look(scan, set);
  if (looks_for_all_) list_omissions(inputs, scan, static_cast<std::size_t>(known), nullptr);
  if (retained_ != nullptr) {
    resources.release_after_launches(retained_->blocks);
    retained_->blocks = inputs.retained;
  }
  keep(std::move(inputs));
  seen_frees_ = 0;  // the next replay checks
  return !blocks_.empty() || !ranges_.empty();
}

// The memory that is checked is the same; what is retained can change in each graph.
std::function<void()> LivenessListener::adopt_from(const LivenessListener& theirs, graphs::Adoption& adoption) {
  std::shared_ptr<Retained> retained;
  if (theirs.retained_ != nullptr) {
    retained = std::make_shared<Retained>(*theirs.retained_);
    adoption.replace(theirs.retained_, retained);
  }
  return [this, retained, backend = theirs.backend_, options = theirs.options_, allocators = theirs.allocators_,
          uses = theirs.uses_, inputs = theirs.inputs_, blocks = theirs.blocks_, ranges = theirs.ranges_,
          queries = theirs.queries_, all = theirs.looks_for_all_]() mutable {
    looks_for_all_ = all;
    retained_ = std::move(retained);
    backend_ = backend;
    options_ = options;
    allocators_ = allocators;
    uses_ = std::move(uses);
    inputs_ = std::move(inputs);
    blocks_ = std::move(blocks);
    ranges_ = std::move(ranges);
    queries_ = queries;
    seen_frees_ = 0;  // the next replay checks
  };
}

// Looks the words of the nodes up in all allocators.
std::vector<UsedAddress> LivenessListener::find_addresses(const GraphScan& scan, std::span<const graphs::SetPlace> set,
                                                          const memory::FreeLog* frees) {
  if (inputs_ && !looks_for_all_) return {};  // what was set since the capture was not freed in it
  const auto is_known = [&](const ScannedWord& word) { return known_use(scan, word, set) != nullptr; };
  std::vector<UsedAddress> addresses = addresses_in(scan, is_known);
  memory::watch_addresses(allocators_->device, addresses, allocators_->own_pools);
  if (allocators_->source != nullptr) allocators_->source->find(addresses);
  if (free_log_) frees = &*free_log_;
  if (frees != nullptr) frees->find(addresses);
  return addresses;
}

// Values that were changed after the capture are used: the framework knows the captured ones alone.
bool LivenessListener::is_used(const GraphScan& scan, const ScannedWord& word, const Finding& finding) const {
  return finding.watch == nullptr || allocators_->source == nullptr || inputs_ ||
         allocators_->source->is_used(scan.nodes[word.node].top, *finding.watch, word.value);
}

// False where a dead address may be harmless: one past the end of a buffer, which is the beginning of the next block,
// or bytes of a larger parameter that no code wrote.
bool LivenessListener::is_certainly_used(const GraphScan& scan, const ScannedWord& word, const Finding& finding,
                                         std::span<const UsedAddress> addresses) const {
  if (allocators_->source != nullptr && allocators_->source->is_certainly_used(scan.nodes[word.node].top, word.value))
    return true;
  if (finding.was_free && !looks_for_all_) return false;  // a stale pointer, which the kernel may not use
  const bool is_begin = word.value == reinterpret_cast<std::uintptr_t>(finding.watch->address);
  if (!word.whole || word.used || !is_begin) return word.whole;
  constexpr std::uintptr_t least_address = std::uintptr_t{1} << 32;  // below: numbers
  const auto first = std::ranges::lower_bound(scan.words, word.node, {}, &ScannedWord::node);
  const auto last = std::ranges::upper_bound(scan.words, word.node, {}, &ScannedWord::node);
  return std::none_of(first, last, [&](const ScannedWord& other) {
    if (other.value < least_address || other.value >= word.value) return false;
    const auto found = std::ranges::lower_bound(addresses, other.value, {}, &UsedAddress::value);
    if (found == addresses.end() || found->value != other.value || !found->in_allocator) return true;
    return is_end_of(other.value, *found, word.value);
  });
}

// True if the memory that `address` lies in, or lay in when it was used, may end there. Blocks of the graph's own pool
// have changed since then.
bool LivenessListener::is_end_of(std::uintptr_t address, const UsedAddress& found, std::uintptr_t end) const {
  bool is_known = false;
  for (const auto& each : allocations_) {
    if (!found.own || address - each.address >= each.bytes) continue;
    if (each.address + each.bytes == end) return true;
    is_known = true;
  }
  return !is_known && found.end == end;
}

// The same word with the same value, as of the last look. The address of memory that was freed is another one's after
// it was set again.
const LivenessListener::Use* LivenessListener::known_use(const GraphScan& scan, const ScannedWord& word,
                                                         std::span<const graphs::SetPlace> set) const noexcept {
  const auto place = [](const ScannedWord& of) { return std::pair(of.node, of.place); };
  const auto found = std::ranges::lower_bound(uses_, place(word), {}, [&](const Use& use) { return place(use.word); });
  const bool same = found != uses_.end() && place(found->word) == place(word) && found->word.value == word.value;
  if (!same) return nullptr;
  const Finding* const memory = found->memory.get();
  const bool may_be_another = memory != nullptr && (memory->watch == nullptr || is_freed(*memory->watch));
  return may_be_another && is_set(scan.nodes[word.node], word, set) ? nullptr : &*found;
}

// The memory of each address that is not known from before.
LivenessListener::MemoryByAddress LivenessListener::find_memory(std::span<const UsedAddress> addresses) {
  // By address and watch, since the same memory may have been freed and be in use again.
  std::map<std::pair<const void*, const BlockWatch*>, std::shared_ptr<const Finding>> found;
  for (const Use& use : uses_)
    if (use.memory != nullptr) found.try_emplace({use.memory->input.address, use.memory->watch.get()}, use.memory);
  MemoryByAddress by_address;
  const auto add = [&](std::uintptr_t address, const Finding& finding) {
    auto& memory = found[{finding.input.address, finding.watch.get()}];
    if (memory == nullptr) memory = std::make_shared<const Finding>(finding);
    by_address[address] = memory;
  };
  for (const UsedAddress& used : addresses) {
    if (used.watch != nullptr) {
      BlockWatch& watch = *used.watch;
      // A framework's log of frees does not say what was allocated again.
      const bool known = used.in_allocator || allocators_->source != nullptr;
      if (looks_for_all_ || (known && is_freed(watch)))
        add(used.value, {used.watch, 0, {watch.address, watch.bytes, {}, false, watch.created}});
    } else if (used.free != nullptr) {
      add(used.value, {used.free, 0, {reinterpret_cast<const void*>(used.value), 0}, /*was_free=*/true});
    } else if (looks_for_all_ && options_.scope == Liveness::all && !used.in_allocator) {
      backend::PointerInfo info;
      const auto* const address = reinterpret_cast<const void*>(used.value);
      backend::Checked(*backend_).pointer_info(address, &info);
      if (info.kind == backend::MemoryKind::unregistered) continue;
      add(used.value, {nullptr, info.id, {info.base, info.bytes}});
    }
  }
  return by_address;
}

LivenessListener::Inputs LivenessListener::look(const GraphScan& scan, std::span<const graphs::SetPlace> set,
                                                const memory::FreeLog* frees) {
  const std::vector<UsedAddress> addresses = find_addresses(scan, set, frees);
  const MemoryByAddress by_address = find_memory(addresses);
  const auto memory_of = [&](const ScannedWord& word) -> std::shared_ptr<const Finding> {
    if (const Use* const known = known_use(scan, word, set)) return known->memory;
    const auto at = by_address.find(word.value);
    if (at == by_address.end()) return nullptr;
    if (!is_used(scan, word, *at->second)) return nullptr;
    const bool must_be_certain = !looks_for_all_ || at->second->was_free;
    return !must_be_certain || is_certainly_used(scan, word, *at->second, addresses) ? at->second : nullptr;
  };
  Inputs inputs;
  std::map<std::pair<const void*, const BlockWatch*>, std::pair<const Finding*, std::vector<std::string>>> users;
  // A node is named once for each way in which it uses the memory.
  std::set<std::tuple<const Finding*, std::uint32_t, std::uint32_t>> named;
  for (const ScannedWord& word : scan.words) {
    std::shared_ptr<const Finding> memory = memory_of(word);
    const ScannedNode& node = scan.nodes[word.node];
    const std::uint32_t way = node.type == backend::NodeType::kernel ? 0 : word.place;
    if (memory != nullptr && named.emplace(memory.get(), word.node, way).second) {
      auto& [finding, names] = users[{memory->input.address, memory->watch.get()}];
      finding = memory.get();
      names.push_back(use_text(*backend_, node, word.place, annotations_.annotation_of(node)));
    }
    inputs.uses.push_back({word, std::move(memory)});
  }
  for (auto& entry : users) add(inputs, *entry.second.first, std::move(entry.second.second));
  return inputs;
}

void LivenessListener::add(Inputs& inputs, const Finding& finding, std::vector<std::string>&& users) const {
  const std::size_t index = inputs.list.size();
  GraphInput& input = inputs.list.emplace_back(finding.input);
  input.nodes = std::move(users);
  if (finding.watch == nullptr) {
    inputs.ranges.push_back({index, finding.id});
    inputs.queries = true;
    return;
  }
  input.retained = options_.retain && inputs.retained->add(finding.watch);
  if (input.retained && !finding.watch->owner->frees_retained()) return;
  inputs.queries |= finding.watch->owner->needs_query();
  inputs.blocks.push_back({index, finding.watch});
}

void LivenessListener::list_omissions(Inputs& inputs, const GraphScan& scan, std::size_t known,
                                      std::vector<std::string>* notes) const {
  if (scan.omissions.size() > known)
    warn(text::format("Inputs of a graph may be missing among those whose liveness it checks: {}.",
                      omissions_text(*backend_, scan.nodes, scan.omissions)));
  for (const Omission& omission : scan.omissions) {
    const ScannedNode& node = scan.nodes[omission.node];
    const Annotation* const annotation = annotations_.annotation_of(node);
    inputs.list.push_back({nullptr, 0, {node_text(*backend_, node, annotation)}, false, {}, omission.why});
    if (notes != nullptr)
      notes->push_back(text::format("Inputs of the graph may be missing: {}.",
                                    omission_text(*backend_, node, omission, annotation)));
  }
}

void LivenessListener::keep(Inputs&& inputs) noexcept {
  uses_ = std::move(inputs.uses);
  inputs_ = std::move(inputs.list);
  blocks_ = std::move(inputs.blocks);
  ranges_ = std::move(inputs.ranges);
  queries_ = inputs.queries;
  allocations_.clear();
}

bool LivenessListener::any_dead() const {
  return std::ranges::any_of(blocks_, [](const Block& block) { return is_freed(*block.watch); }) ||
         std::ranges::any_of(ranges_, [&](const Range& range) { return is_dead(range) != Dead::no; });
}

LivenessListener::Dead LivenessListener::is_dead(const Range& range) const {
  const backend::PointerInfo info = backend::Checked(*backend_).info_of((*inputs_)[range.input].address);
  if (info.kind == backend::MemoryKind::unregistered) return Dead::freed;
  return info.id != range.id ? Dead::given_out_again : Dead::no;
}

std::vector<DeadInput> LivenessListener::dead_blocks() const {
  std::vector<DeadInput> dead;
  for (const Block& block : blocks_)
    if (is_freed(*block.watch))
      dead.push_back(
          {(*inputs_)[block.input], block.watch->freed_by, block.watch->owner->is_given_out_again(*block.watch)});
  return dead;
}

void LivenessListener::check(std::uint64_t frees) {
  std::vector<DeadInput> dead = dead_blocks();
  if (dead.empty()) seen_frees_ = frees;
  for (const Range& range : ranges_)
    if (const Dead found = is_dead(range); found != Dead::no)
      dead.push_back({(*inputs_)[range.input], {}, found == Dead::given_out_again});
  if (!dead.empty()) refuse("CUDAGraph::replay", std::move(dead));
}

void LivenessListener::require_live(const char* call) {
  if (std::vector<DeadInput> dead = dead_blocks(); !dead.empty()) refuse(call, std::move(dead));
}

void LivenessListener::require_live_since(const memory::FreeLog& frees, const char* call, const CUDAGraph& segment) {
  const auto& graph = graphs::GraphAccess::of(segment, call);
  if (looks_for_all_) return require_live(call);
  const std::shared_ptr<InputSource> source = allocators_ ? allocators_->source : nullptr;
  if (graph.template_graph == nullptr || (source == nullptr && frees.empty())) return;
  std::vector<MempoolId> pools = graph.listeners.children().pools();
  pools.push_back(graph.pool);
  backend_ = &graph.backend();
  allocations_ = graph.listeners.pool().allocations();
  allocators_.emplace(Allocators{*graph.device, std::move(pools), source});
  keep(look(scan_graph(*backend_, graph.template_graph), {}, &frees));
  require_live(call);
  recorded();
}

void LivenessListener::refuse(const char* call, std::vector<DeadInput>&& dead) const {
  std::ranges::stable_sort(dead, std::less<>{}, &GraphInput::address);
  DeadGraph graph{.call = call, .name = name_, .retains_them = options_.retain};
  if (const auto all = inputs())
    graph.inputs = static_cast<std::size_t>(
        std::ranges::count_if(*all, [](const GraphInput& input) { return input.address != nullptr; }));
  const std::string text = dead_inputs_text(graph, dead);
  throw DeadInputError(text, std::move(dead));
}

std::optional<std::vector<GraphInput>> LivenessListener::inputs() const {
  if (!inputs_ || !looks_for_all_) return std::nullopt;
  return inputs_;
}

void LivenessListener::reset() noexcept {
  free_log_.reset();
  source_.reset();
  looks_for_all_ = false;
  inputs_.reset();
  blocks_.clear();
  ranges_.clear();
  allocators_.reset();
  uses_.clear();
  allocations_.clear();
  retained_.reset();
  queries_ = false;
  seen_frees_ = 0;
}

}  // namespace reprise::inspect

namespace reprise {
namespace {

[[noreturn]] void refuse_without_inputs(const char* call) {
  throw UsageError(
      text::format("{} needs a graph that was captured with GraphOptions::check_input_liveness or inputs.retain. The "
                   "inputs of this one were not looked for.",
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

}  // namespace reprise
