// SPDX-License-Identifier: Apache-2.0
#include "graph/parameters/parameters.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/host_work.h"
#include "backend/own_records.h"
#include "captures/registry.h"
#include "graph/cuda_graph_impl.h"
#include "memory/allocator_impl.h"
#include "reprise/kernel.h"
#include "text/format.h"

namespace reprise {
namespace graphs {

namespace {

bool overlap(const NodePlace& a, const NodePlace& b) noexcept {
  return a.of == b.of && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

std::size_t Parameters::find_or_add(const std::shared_ptr<const void>& key, std::span<const std::byte> value) {
  const auto known = by_key_.find(key.get());
  if (known != by_key_.end()) return known->second;
  parameters_.push_back({.key = key, .address = key.get(), .value = {value.begin(), value.end()}, .uses = {}});
  by_key_.emplace(key.get(), parameters_.size() - 1);
  return parameters_.size() - 1;
}

void Parameters::add_use(std::size_t parameter, const Use& use) {
  std::vector<Place>& of_node = by_node_[use.node];
  const auto is_same = [&](const Place& each) { return each.parameter == parameter && each.place == use.place; };
  if (std::ranges::any_of(of_node, is_same)) return;
  for (const Place& each : of_node)
    if (each.parameter != parameter && overlap(each.place, use.place))
      parameters_[each.parameter].shares = parameters_[parameter].shares = true;
  of_node.push_back({parameter, use.place});
  parameters_[parameter].uses.push_back(use);
}

void Parameters::add(const std::shared_ptr<const void>& key, std::span<const std::byte> value, std::vector<Use> uses,
                     std::size_t bytes) {
  if (parameters_.size() >= drop_at_) {
    Parameters left = copy([](GraphNodeHandle node) { return node; });
    left.addresses_ = take_addresses();
    left.drop_at_ = std::max(least_to_drop, 2 * left.size());
    *this = std::move(left);
  }
  const std::size_t parameter = find_or_add(key, value);
  parameters_[parameter].bytes = std::max(parameters_[parameter].bytes, bytes);
  for (const Use& use : uses) add_use(parameter, use);
}

template <class NodeOf>
Parameters Parameters::copy(const NodeOf& node_of) const {
  Parameters made;
  made.batch_ = batch_;
  for (const Parameter& parameter : parameters_) {
    const std::shared_ptr<const void> key = parameter.key.lock();
    if (key == nullptr) continue;
    const std::size_t place = made.find_or_add(key, parameter.value);
    made.parameters_[place].known = parameter.known;
    made.parameters_[place].batch = parameter.batch;
    made.parameters_[place].bytes = parameter.bytes;
    for (Use use : parameter.uses) {
      use.node = node_of(use.node);
      use.top = node_of(use.top);
      if (use.node != nullptr) made.add_use(place, use);
    }
  }
  return made;
}

std::size_t Parameters::index_of(const char* call, const void* key) const {
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second;
  throw UsageError(
      text::format("{} expected a parameter of this graph, from launch() in its capture or from its "
                   "CUDAGraph::parameter(). None of its nodes uses this one: it is another graph's, or older than a "
                   "reset, update or recapture. Nothing has changed.",
                   call));
}

bool Parameters::have_place(GraphNodeHandle node, const NodePlace& place) const {
  const auto found = by_node_.find(node);
  return found != by_node_.end() && std::ranges::any_of(found->second, [&](const Place& each) {
           return overlap(each.place, place) && !parameters_[each.parameter].key.expired();
         });
}

void Parameters::node_changed(GraphNodeHandle node) noexcept {
  const auto found = by_node_.find(node);
  if (found == by_node_.end()) return;
  for (const Place& each : found->second) parameters_[each.parameter].known = false;
}

Parameters Parameters::adopted(const std::unordered_map<GraphNodeHandle, GraphNodeHandle>& nodes) const {
  return copy([&](GraphNodeHandle node) -> GraphNodeHandle {
    const auto found = nodes.find(node);
    return found != nodes.end() ? found->second : nullptr;
  });
}

void Parameters::forget_sharing(const Parameter& parameter) noexcept {
  for (const Use& use : parameter.uses)
    for (const Place& each : by_node_.find(use.node)->second)
      if (&parameters_[each.parameter] != &parameter && overlap(each.place, use.place))
        parameters_[each.parameter].known = false;
}

void Parameters::were_set(std::span<const ParameterValue> values) noexcept {
  for (const ParameterValue& value : values) {
    Parameter& parameter = parameters_[by_key_.find(value.key())->second];
    std::memcpy(parameter.value.data(), value.value(), value.bytes());
    parameter.known = true;
  }
  // Two parameters that share a place: neither value is known now.
  for (const ParameterValue& value : values) {
    const Parameter& parameter = parameters_[by_key_.find(value.key())->second];
    if (parameter.shares) forget_sharing(parameter);
  }
}

}  // namespace graphs

using backend::Checked;
using graphs::NodeChange;
using graphs::NodeChanges;
using graphs::NodeImage;
using graphs::NodePlace;
using graphs::Parameters;

namespace {

/// A node, and those of its child graph or bodies, at any depth.
std::vector<GraphNodeHandle> with_inner_nodes(graphs::GraphAccess::Impl& impl, GraphNodeHandle node) {
  std::vector<GraphNodeHandle> found{node};
  for (const GraphHandle graph : impl.changes.values(impl.backend(), node).inner_graphs())
    for (const GraphNodeHandle inner : Checked(impl.backend()).nodes_of(graph)) {
      const std::vector<GraphNodeHandle> nodes = with_inner_nodes(impl, inner);
      found.insert(found.end(), nodes.begin(), nodes.end());
    }
  return found;
}

// For a kernel of this library: true if a launch uses the address.
bool is_used_by(const Parameters::Address& address, const NodeImage& own) {
  return std::ranges::any_of(own.own_accesses(), [&](const MemoryAccess& access) {
    return access.bytes != 0 && address.covers(reinterpret_cast<std::uintptr_t>(access.address));
  });
}

// True if arguments of the kernel have the number as an integer.
bool has_number(NodeImage& kernel, std::uint64_t number) {
  for (const KernelParam& param : kernel.layout()) {
    const std::span<const std::byte> bytes = kernel.at({NodePlace::Of::arguments, param.offset, param.size});
    for (std::size_t at = 0; at + sizeof(std::uint32_t) <= bytes.size(); at += sizeof(std::uint32_t)) {
      std::uint32_t low = 0, high = 0;
      std::memcpy(&low, bytes.data() + at, sizeof low);
      const bool is_wide = at % sizeof number == 0 && at + sizeof number <= bytes.size();
      if (is_wide) std::memcpy(&high, bytes.data() + at + sizeof low, sizeof high);
      if (low == number || (is_wide && (std::uint64_t{high} << 32 | low) == number)) return true;
    }
  }
  return false;
}

// What a pointer of this type points to, without const; empty if it is none. By the mangled names, "Pi" and "PKi" for
// pointers to int and const int.
std::string_view pointee(std::string_view type) {
  if (!type.starts_with('P')) return {};
  return type.substr(type.starts_with("PK") ? 2 : 1);
}

// False if arguments of these types are no begin and end of a range; null: the type is not known. What points to other
// values, but for void and bytes, or may write where the begin may not, is no end; an integer may be.
bool may_be_a_pair(const std::type_info* begin, const std::type_info* end) {
  if (begin == nullptr || end == nullptr) return true;
  const std::string_view one = begin->name(), other = end->name();
  const std::string_view of_one = pointee(one), of_other = pointee(other);
  if (of_one.empty() || of_other.empty()) return true;
  if (one.starts_with("PK") && !other.starts_with("PK")) return false;
  const auto is_raw = [](std::string_view type) {
    return type == "v" || type == "c" || type == "a" || type == "h" || type == "St4byte";
  };
  return of_one == of_other || is_raw(of_one) || is_raw(of_other);
}

// True if arguments of the kernel have the number of values in these bytes; null: their type is not known.
bool has_count(NodeImage& kernel, std::size_t bytes, const std::type_info* pointer) {
  const std::string_view type = pointer != nullptr ? pointee(pointer->name()) : std::string_view();
  const auto has = [&](std::initializer_list<std::size_t> sizes) {
    return std::ranges::any_of(sizes,
                               [&](std::size_t size) { return bytes % size == 0 && has_number(kernel, bytes / size); });
  };
  if (type == "f" || type == "i" || type == "j") return has({4});
  if (type == "d" || type == "l" || type == "m" || type == "x" || type == "y") return has({8});
  if (type == "s" || type == "t") return has({2});
  return has({1, 2, 4, 8, 16});
}

// True if memory of another use may begin at the end of a range: a buffer, the next part of the same one, or what the
// allocator does not know. The bytes behind a buffer, which rounding added to its block, are none.
bool may_begin_at(const Device& device, std::uintptr_t begin, std::uintptr_t end) {
  const auto& allocator = CachingAllocator::of(device).impl();
  const auto other = allocator.find_block(reinterpret_cast<const void*>(end));
  if (other && reinterpret_cast<std::uintptr_t>(other->address) == end) return true;
  const auto block = allocator.find_block(reinterpret_cast<const void*>(begin));
  return !block || end - reinterpret_cast<std::uintptr_t>(block->address) < block->bytes;
}

// True if the kernel declares that it accesses memory at the address of this place: were it another address, the kernel
// would access as many bytes there, and the same elsewhere. With the end of a range, it would access another number.
bool is_declared_memory(backend::KernelAccesses accesses, NodeImage& image, const NodePlace& place) {
  if (accesses == nullptr) return false;
  constexpr std::uintptr_t distance = 256;
  std::vector<void*> params;
  for (const KernelParam& param : image.layout()) params.push_back(image.block().data() + param.offset);
  std::byte* const at = image.at(place).data();
  std::uintptr_t value = 0;
  std::memcpy(&value, at, sizeof value);
  const std::uintptr_t other = value + distance;
  const std::vector<MemoryAccess> with_value = accesses(params.data());
  std::memcpy(at, &other, sizeof other);
  const std::vector<MemoryAccess> with_other = accesses(params.data());
  std::memcpy(at, &value, sizeof value);
  bool moves = false;
  const auto same_or_moved = [&](const MemoryAccess& a, const MemoryAccess& b) {
    if (a.bytes != b.bytes) return false;
    if (a.address == b.address) return true;
    moves |= a.bytes != 0;
    return reinterpret_cast<std::uintptr_t>(a.address) == value && reinterpret_cast<std::uintptr_t>(b.address) == other;
  };
  return std::ranges::equal(with_value, with_other, same_or_moved) && moves;
}

// Refuses a kernel that has an address of the range, and the one behind it, which would stay: the end of the range, or
// other memory that begins there, as the next buffer or array does. It is other memory if the kernel has the number of
// values besides, or declares it, or if its type says so; if another parameter has the place, the program has said what
// becomes of it.
void require_no_end(const Device& device, const Parameters::Address& address, NodeImage& image,
                    const std::function<bool(const NodePlace& place)>& has_parameter,
                    const std::function<std::string()>& node_text) {
  const std::vector<NodePlace> words = image.words();
  const std::uintptr_t end = address.value + address.bytes;
  for (const NodePlace& behind : words) {
    if (image.word(behind) != end || has_parameter(behind)) continue;
    for (const NodePlace& begin : words)
      if (address.covers(image.word(begin)) && !image.is_number(begin) &&
          may_be_a_pair(image.argument_type(begin), image.argument_type(behind)) &&
          !(may_begin_at(device, address.value, end) &&
            has_count(image, end - image.word(begin), image.argument_type(begin))) &&
          !is_declared_memory(backend::accesses_of(device.backend(), image.function()), image, behind))
        throw UsageError(text::format(
            "CUDAGraph::parameter: expected a range of addresses whose end no kernel uses; found {}, behind the {} "
            "bytes of the range, in the {}, which uses an address of the range, too: {}",
            reinterpret_cast<const void*>(end), address.bytes, node_text(),
            image.is_number(behind)
                ? "the end as an integer, which would stay. Pass the end as a pointer, and make a parameter of it, "
                  "parameter(data + count), before that of the range; set both in one call."
                : "the second one of a pair of pointers, which would stay, or other memory that begins there. Make a "
                  "parameter of that address first, parameter(data + count): if it is the end, set both in one call, "
                  "and if it is other memory, leave that one; or declare the accesses() of the kernel, which say what "
                  "it is."));
  }
}

/// The changes that values of parameters make.
class Batch {
 public:
  explicit Batch(graphs::GraphAccess::Impl& impl) : impl_(impl) {
    if (!impl_.may_be_edited) return;
    impl_.changes.forget();
    const std::vector<GraphNodeHandle> nodes = Checked(impl_.backend()).nodes_of(impl_.template_graph);
    left_.emplace(nodes.begin(), nodes.end());
  }

  void set(const Parameters::Parameter& parameter, const ParameterValue& value) {
    for (const Parameters::Use& use : parameter.uses) {
      if (!is_left(use)) continue;
      set_.push_back({use.node, use.place});
      const std::span<std::byte> at = image_of(use.node).at(use.place);
      if (at.size() != value.bytes()) continue;  // another node at the address of a removed one
      std::memcpy(at.data(), value.value(), at.size());
      if (use.distance == 0) continue;
      std::uintptr_t address = 0;
      std::memcpy(&address, at.data(), sizeof address);
      address += use.distance;
      std::memcpy(at.data(), &address, sizeof address);
    }
  }

  void apply(const char* call) {
    if (!impl_.executable_may_differ())
      std::erase_if(changes_, [&](const NodeChange& change) {
        return impl_.changes.values(impl_.backend(), change.node).same_values(change.to);
      });
    for (const NodeChange& change : changes_)
      impl_.changes.check(*impl_.device, impl_.exec, change.node, impl_.changes.values(impl_.backend(), change.node),
                          change.to, [&] { return text::format("{}, {}", call, impl_.node_text(change.node)); });
    if (!changes_.empty() || impl_.wants_same_values()) impl_.change_nodes(changes_, set_);
  }

  /// False if the node was removed from the template.
  bool is_left(const Parameters::Use& use) {
    if (!left_) return true;
    if (left_->contains(use.node) || !left_->contains(use.top)) return left_->contains(use.top);
    const std::vector<GraphNodeHandle> inner = with_inner_nodes(impl_, use.top);
    left_->insert(inner.begin(), inner.end());
    return left_->contains(use.node);
  }

 private:
  NodeImage& image_of(GraphNodeHandle node) {
    const auto [known, is_new] = places_.try_emplace(node, changes_.size());
    if (is_new) changes_.push_back({node, impl_.changes.values(impl_.backend(), node)});
    return changes_[known->second].to;
  }

  graphs::GraphAccess::Impl& impl_;
  std::vector<NodeChange> changes_;
  std::vector<graphs::SetPlace> set_;
  std::unordered_map<GraphNodeHandle, std::size_t> places_;  // in changes_, of their nodes
  std::optional<std::unordered_set<GraphNodeHandle>> left_;  // of a template that may be edited: its nodes
};

}  // namespace

std::vector<Parameters::Use> CUDAGraph::Impl::uses_of(const Parameters::Address& address) {
  constexpr const char* call = "CUDAGraph::parameter";
  std::vector<Parameters::Use> found;
  for (const GraphNodeHandle top : Checked(backend()).nodes_of(template_graph))
    for (const GraphNodeHandle node : with_inner_nodes(*this, top)) {
      NodeImage image = changes.values(backend(), node);
      const auto add_if_covered = [&](const NodePlace& place) {
        const std::uintptr_t value = image.word(place);
        if (address.covers(value)) found.push_back({node, top, place, value - address.value});
      };
      if (image.own_kernel() != nullptr && backend::is_enqueued(*image.own_kernel())) {
        for (const KernelParam& operand : image.layout().subspan(1))
          add_if_covered({NodePlace::Of::arguments, operand.offset + offsetof(MemoryAccess, address), sizeof(void*)});
        continue;
      }
      if (image.own_kernel() != nullptr) {
        if (is_used_by(address, image))
          NodeChanges::require_not_own(image, [&] { return text::format("{}, {}", call, node_text(node)); });
        continue;
      }
      for (const void* const fixed : image.fixed_addresses())
        if (fixed != nullptr && address.covers(reinterpret_cast<std::uintptr_t>(fixed)))
          throw UsageError(
              text::format("{}: expected an address that CUDA can change in each of its nodes; found "
                           "{}, which the {} uses: {}.",
                           call, reinterpret_cast<const void*>(address.value), node_text(node), image.unknown()));
      for (const NodePlace& place : image.words())
        if (!image.is_number(place)) add_if_covered(place);
    }
  if (found.empty())
    throw UsageError(text::format(
        "{}: expected an address that kernels, copies or sets of the graph use; found {}, which none of its "
        "nodes has as an argument{}. inputs() lists what the graph uses.",
        call, reinterpret_cast<const void*>(address.value),
        address.bytes == 0 ? "" : ", nor one in the memory that follows"));
  return found;
}

void CUDAGraph::Impl::require_no_end_used(const Parameters::Address& address, std::span<const Parameters::Use> found) {
  if (address.bytes == 0) return;
  std::unordered_set<GraphNodeHandle> seen;
  for (const Parameters::Use& use : found) {
    NodeImage image = changes.values(backend(), use.node);
    if (image.type() != backend::NodeType::kernel || image.own_kernel() != nullptr || !seen.insert(use.node).second)
      continue;
    require_no_end(
        *device, address, image, [&](const NodePlace& place) { return parameters.have_place(use.node, place); },
        [&] { return node_text(use.node); });
  }
}

namespace {

/// The arguments of one capture that parameters stand for.
struct MarkedArguments {
  struct Use {
    std::shared_ptr<const void> key;
    std::vector<std::byte> initial;
    GraphNodeHandle node = nullptr;
    std::size_t argument = 0;
  };

  std::mutex mutex;
  std::vector<Use> uses;
};

constinit captures::Slot<MarkedArguments> marked_of_capture;

}  // namespace

void detail::launch_marked_kernel(const StreamRef& stream, const LaunchConfig& config, const KernelRecord& record,
                                  void** params, std::span<const parameter_detail::MarkedArgument> marked) {
  std::shared_ptr<MarkedArguments> of_capture;
  if (captures::any_underway()) {
    const captures::Found found = captures::find(stream);
    if (found.part == captures::Part::own) of_capture = found.capture->get_or_attach(marked_of_capture);
  }
  launch_kernel(stream, config, record, params);
  if (of_capture == nullptr) return;
  // The next node would depend on this kernel alone.
  const backend::CaptureInfo info = backend::capture_info(stream);
  if (info.status != CaptureStatus::active) return;  // it was broken since: its end says so
  if (info.dependencies.size() != 1)
    throw Error(
        "launch: the node of a kernel with a Parameter was not found in the capture, which continues: the argument "
        "keeps "
        "its initial value.");
  const std::lock_guard lock(of_capture->mutex);
  for (const parameter_detail::MarkedArgument& each : marked) {
    const auto* const bytes = static_cast<const std::byte*>(each.initial);
    of_capture->uses.push_back({each.key, {bytes, bytes + each.bytes}, info.dependencies.front(), each.index});
  }
}

void CUDAGraph::Impl::find_parameters() {
  const std::shared_ptr<MarkedArguments> marked = capture->capture().detach(marked_of_capture);
  const std::vector<Parameters::Address> addresses = parameters.take_addresses();
  if (marked == nullptr && addresses.empty()) return;
  const std::vector<GraphNodeHandle> nodes = Checked(backend()).nodes_of(template_graph);
  std::unordered_map<GraphNodeHandle, GraphNodeHandle> tops;  // of nodes in bodies; filled when one is marked
  const auto top_of = [&](GraphNodeHandle node) -> GraphNodeHandle {
    if (std::ranges::find(nodes, node) != nodes.end()) return node;
    if (tops.empty())
      for (const GraphNodeHandle top : nodes)
        for (const GraphNodeHandle inner : with_inner_nodes(*this, top)) tops.emplace(inner, top);
    const auto known = tops.find(node);
    return known != tops.end() ? known->second : nullptr;
  };
  for (const MarkedArguments::Use& use :
       marked != nullptr ? std::span(marked->uses) : std::span<MarkedArguments::Use>()) {
    GraphNodeHandle const top = top_of(use.node);
    if (top == nullptr) continue;  // removed by other code
    const NodeImage& image = changes.values(backend(), use.node);
    if (!image.unknown().empty())
      throw UsageError(
          text::format("CUDAGraph::capture_end: launch() was passed a Parameter for the {}, whose "
                       "parameters cannot be changed: {}.",
                       node_text(use.node), image.unknown()));
    const KernelParam& param = image.layout()[use.argument];
    parameters.add(use.key, use.initial, {{use.node, top, {NodePlace::Of::arguments, param.offset, param.size}}});
  }
  std::vector<std::vector<Parameters::Use>> found;
  for (const Parameters::Address& address : addresses) {
    found.push_back(uses_of(address));
    parameters.add(address.key, std::as_bytes(std::span(&address.value, 1)), found.back(), address.bytes);
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) require_no_end_used(addresses[i], found[i]);
}

void CUDAGraph::add_address(std::shared_ptr<const void> key, const void* address, std::size_t bytes) {
  constexpr const char* call = "CUDAGraph::parameter";
  Impl& impl = Impl::of(*this, call);
  impl.require_changeable(call);
  const std::lock_guard lock(impl.launch_mutex);
  impl.require(call, {Impl::State::capturing, Impl::State::captured, Impl::State::ready});
  if (address == nullptr)
    throw UsageError(text::format("{} expected an address that the graph uses; found a null pointer.", call));
  Parameters::Address named{std::move(key), reinterpret_cast<std::uintptr_t>(address), bytes};
  if (impl.state == Impl::State::capturing) return impl.parameters.add_address(std::move(named));
  impl.require_template(call);
  impl.forget_editable();
  std::vector<Parameters::Use> uses = impl.uses_of(named);
  impl.require_no_end_used(named, uses);
  impl.parameters.add(named.key, std::as_bytes(std::span(&named.value, 1)), std::move(uses), named.bytes);
}

namespace {

// The place of an address whose uses lie in that many bytes.
void require_bytes(const char* call, const Device& device, const ParameterValue& value, std::size_t bytes) {
  const void* address = nullptr;
  std::memcpy(&address, value.value(), sizeof address);
  if (address == nullptr || bytes > UINTPTR_MAX - reinterpret_cast<std::uintptr_t>(address))
    throw UsageError(text::format(
        "{}: expected an address with {} bytes, of which the graph uses some; found {}. Nothing has changed.", call,
        bytes, address == nullptr ? "a null pointer" : text::format("{}, at the end of the address space", address)));
  const auto block = memory::exceeded_block(device, address, bytes);
  if (!block) return;
  throw UsageError(text::format(
      "{}: expected an address with {} bytes, of which the graph uses some, within one block of the caching allocator; "
      "found {}, which is byte {} of a block of {} bytes. Nothing has changed.",
      call, bytes, address, static_cast<const std::byte*>(address) - block->address, block->bytes));
}

}  // namespace

void CUDAGraph::set(std::span<const ParameterValue> values) {
  constexpr const char* call = "CUDAGraph::set";
  Impl& impl = Impl::of(*this, call);
  impl.require_changeable(call);
  const std::lock_guard lock(impl.launch_mutex);
  impl.require_captured(call);
  if (!impl.parameters.have(call, values) || impl.may_be_edited || (impl.replays_notify && impl.wants_same_values()))
    impl.set_parameters(call, values);
}

// Apart from set(), so that a call without a change saves no registers for it.
[[gnu::noinline]] void CUDAGraph::Impl::set_parameters(const char* call, std::span<const ParameterValue> values) {
  require_template(call);
  const bool knows = !may_be_edited && !wants_same_values();
  Batch batch(*this);
  const std::uint64_t number = parameters.next_batch();
  std::vector<std::pair<Parameters::Parameter*, const ParameterValue*>> changed;
  changed.reserve(values.size());
  for (std::size_t i = values.size(); i-- > 0;) {  // of two values of one parameter the last one counts
    Parameters::Parameter& parameter = parameters.find(call, values[i].key());
    if (std::exchange(parameter.batch, number) == number) continue;
    // If it shares a place, another value of this call may change its value.
    if (knows && !parameter.shares && Parameters::has(parameter, values[i])) continue;
    if (parameter.bytes > 1) require_bytes(call, *device, values[i], parameter.bytes);
    changed.emplace_back(&parameter, &values[i]);
  }
  // Likewise of two parameters of one place.
  for (std::size_t i = changed.size(); i-- > 0;) batch.set(*changed[i].first, *changed[i].second);
  batch.apply(call);
  parameters.were_set(values);
}

void CUDAGraph::get_value(const void* key, void* value, std::size_t bytes) const {
  constexpr const char* call = "CUDAGraph::get";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);
  impl.require_captured(call);
  if (impl.capture && impl.state == Impl::State::captured)
    throw UsageError(
        text::format("{} was called within the hook `captured`, which may still change the template; what uses a "
                     "parameter is found once it has returned. Read the value in the hook `instantiated`, or when the "
                     "capture has ended.",
                     call));
  const Parameters::Parameter& parameter = impl.parameters.find(call, key);
  std::memcpy(value, parameter.value.data(), bytes);
  if ((parameter.known && !impl.may_be_edited) || impl.template_graph == nullptr || parameter.uses.empty()) return;
  // Something else changed the node: the first use that is left says what replays have.
  Batch batch(impl);
  const auto use =
      std::ranges::find_if(parameter.uses, [&](const Parameters::Use& each) { return batch.is_left(each); });
  if (use == parameter.uses.end()) return;
  NodeImage image = impl.changes.values(impl.backend(), use->node);
  const std::span<std::byte> at = image.at(use->place);
  if (at.size() != bytes) return;
  std::memcpy(value, at.data(), bytes);
  if (use->distance == 0) return;
  std::uintptr_t address = 0;
  std::memcpy(&address, value, sizeof address);
  address -= use->distance;
  std::memcpy(value, &address, sizeof address);
}

}  // namespace reprise
