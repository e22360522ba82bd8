// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/node_image.h"

#include <algorithm>
#include <cstring>
#include <typeinfo>
#include <variant>

#include "backend/check.h"
#include "backend/own_records.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Call;
using backend::Checked;
using backend::NodeType;

namespace {

std::string failure_text(Call call, ErrorCode result) {
  return text::format("{} failed with {} ({})", backend::cuda_name(call), result_name(result),
                      static_cast<int>(result));
}

bool has_values(NodeType type) {
  return type == NodeType::kernel || type == NodeType::memcpy || type == NodeType::memset;
}

/// Compares two NodeParams of one other type. Graphs in nodes, and memory of allocation nodes, are never the same.
struct SameOthers {
  bool operator()(const backend::HostNodeParams& a, const backend::HostNodeParams& b) const {
    return a.function == b.function && a.data == b.data;
  }
  bool operator()(const backend::EventRecordNodeParams& a, const backend::EventRecordNodeParams& b) const {
    return a.event == b.event;
  }
  bool operator()(const backend::EventWaitNodeParams& a, const backend::EventWaitNodeParams& b) const {
    return a.event == b.event;
  }
  bool operator()(const backend::EmptyNodeParams&, const backend::EmptyNodeParams&) const { return true; }
  template <class A, class B>
  bool operator()(const A&, const B&) const {
    return false;
  }
};

}  // namespace

const std::shared_ptr<const KernelLayouts::Layout>& KernelLayouts::of(Backend& backend, FunctionHandle function) {
  const auto known = layouts_.find(function);
  if (known != layouts_.end()) return known->second;
  Layout layout;
  KernelParam param;
  backend::Result result = ErrorCode::success;
  while ((result = backend.function_param_info(function, layout.params.size(), &param)) == ErrorCode::success)
    layout.params.push_back(param);
  if (result != ErrorCode::invalid_value) {  // the code after the last parameter
    if (result != ErrorCode::not_supported) backend::check(backend, Call::function_param_info, result);
    layout.params.clear();
    layout.unknown = failure_text(Call::function_param_info, result.code());
  }
  return layouts_.emplace(function, std::make_shared<const Layout>(std::move(layout))).first->second;
}

NodeImage::NodeImage(Backend& backend, GraphNodeHandle node, KernelLayouts& layouts) {
  const Checked runtime(backend);
  backend::NodeParams params = backend::EmptyNodeParams{};
  const bool described = runtime.allowing(ErrorCode::not_supported).graph_node_params(node, &params);
  if (described)
    type_ = backend::node_type(params);
  else
    runtime.graph_node_type(node, &type_);
  if (!has_values(type_)) {
    unknown_ = "only kernel, memcpy and memset nodes have parameters that can be changed";
    if (described) others_ = std::move(params);
    return;
  }
  if (!described || backend::is_pitched(params)) {
    if (const auto* const copy = std::get_if<backend::PitchedCopyNodeParams>(&params))
      fixed_ = {copy->source.address, copy->destination.address};
    if (const auto* const set = std::get_if<backend::PitchedSetNodeParams>(&params)) fixed_ = {set->destination};
    unknown_ = type_ == NodeType::kernel
                   ? failure_text(Call::graph_node_params, ErrorCode::not_supported)
                   : "it has more than one dimension, or uses an array, and CUDA changes one-dimensional copies and "
                     "sets only";
    return;
  }
  if (const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params)) read(backend, *kernel, layouts);
  if (const auto* const copy = std::get_if<backend::MemcpyNodeParams>(&params)) copy_ = *copy;
  if (const auto* const set = std::get_if<backend::MemsetNodeParams>(&params)) set_ = *set;
}

void NodeImage::read(Backend& backend, const backend::KernelNodeParams& kernel, KernelLayouts& layouts) {
  function_ = kernel.function;
  config_ = kernel.config;
  config_.programmatic = false;  // of the edge
  own_ = backend::own_record(backend, kernel.function);
  layout_ = layouts.of(backend, function_);
  unknown_ = layout_->unknown;
  if (!unknown_.empty()) return;
  if (kernel.params == nullptr && kernel.extra != nullptr) return read_packed(kernel.extra);
  if (kernel.params == nullptr && !layout().empty()) {
    unknown_ = "the driver has no arguments of it";
    return;
  }
  std::size_t bytes = 0;
  for (const KernelParam& param : layout()) bytes = std::max(bytes, param.offset + param.size);
  block_.resize(bytes);
  for (std::size_t i = 0; i < layout().size(); ++i)
    std::memcpy(block_.data() + layout()[i].offset, kernel.params[i], layout()[i].size);
}

void NodeImage::read_packed(void* const* extra) {
  const auto block = backend::packed_arguments(extra);
  if (!block) {
    unknown_ = "its `extra` arguments have an unknown form";
    return;
  }
  for (const KernelParam& param : layout())
    if (param.offset > block->size() || param.size > block->size() - param.offset)
      unknown_ =
          text::format("its block of `extra` arguments has {} bytes, and parameters lie past its end", block->size());
  block_.assign(block->begin(), block->end());
  packed_ = true;
}

std::vector<MemoryAccess> NodeImage::own_accesses() const {
  ParamPointers pointers;
  const backend::NodeParams own = params(pointers);
  return own_->accesses(std::get<backend::KernelNodeParams>(own).params);
}

std::vector<GraphHandle> NodeImage::inner_graphs() const {
  if (!others_) return {};
  if (const auto* const child = std::get_if<backend::ChildGraphNodeParams>(&*others_)) return {child->graph};
  const auto* const conditional = std::get_if<backend::ConditionalNodeParams>(&*others_);
  return conditional != nullptr ? conditional->bodies : std::vector<GraphHandle>();
}

std::span<std::byte> NodeImage::at(const NodePlace& place) noexcept {
  const auto bytes_of = [](auto& value) { return std::as_writable_bytes(std::span(&value, 1)); };
  if (place.of == NodePlace::Of::arguments) {
    const bool inside = place.offset <= block_.size() && place.bytes <= block_.size() - place.offset;
    return inside ? block().subspan(place.offset, place.bytes) : std::span<std::byte>();
  }
  if (type_ == NodeType::memcpy)
    return place.of == NodePlace::Of::source ? bytes_of(copy_.source) : bytes_of(copy_.destination);
  if (type_ == NodeType::memset && place.of == NodePlace::Of::destination) return bytes_of(set_.destination);
  return {};
}

std::vector<NodePlace> NodeImage::words() const {
  constexpr std::size_t word = sizeof(void*);
  if (!unknown_.empty()) return {};
  if (type_ == NodeType::memcpy) return {{NodePlace::Of::source, 0, word}, {NodePlace::Of::destination, 0, word}};
  if (type_ == NodeType::memset) return {{NodePlace::Of::destination, 0, word}};
  std::vector<NodePlace> found;
  for (const KernelParam& param : layout())
    for (std::size_t at = 0; at + word <= param.size; at += word)
      found.push_back({NodePlace::Of::arguments, param.offset + at, word});
  return found;
}

const std::type_info* NodeImage::argument_type(const NodePlace& place) const noexcept {
  if (place.of != NodePlace::Of::arguments) return nullptr;
  for (const KernelParam& param : layout())
    if (place.offset >= param.offset && place.offset - param.offset < param.size) return param.type;
  return nullptr;
}

bool NodeImage::is_number(const NodePlace& place) const noexcept {
  return graphs::is_number(argument_type(place));
}

bool is_number(const std::type_info* type) noexcept {
  if (type == nullptr) return false;
  for (const std::type_info* const number : {&typeid(long), &typeid(unsigned long), &typeid(long long),
                                             &typeid(unsigned long long), &typeid(double), &typeid(long double)})
    if (*type == *number) return true;
  return false;
}

backend::NodeParams NodeImage::params(ParamPointers& pointers) const {
  if (others_) return *others_;
  if (type_ == NodeType::memcpy) return copy_;
  if (type_ == NodeType::memset) return set_;
  backend::KernelNodeParams kernel{function_, config_};
  std::vector<void*>& list = pointers.pointers;
  list.clear();
  auto* const block = const_cast<std::byte*>(block_.data());  // the runtime's interface has no const; it copies
  if (packed_) {
    // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
    pointers.block_bytes = block_.size();
    const auto key = [](std::uintptr_t number) { return reinterpret_cast<void*>(number); };
    list = {key(1), block, key(2), &pointers.block_bytes, key(0)};
    kernel.extra = list.data();
  } else {
    list.reserve(layout().size() + 1);
    for (const KernelParam& param : layout()) list.push_back(block + param.offset);
    list.push_back(nullptr);
    kernel.params = list.data();
  }
  return kernel;
}

bool NodeImage::same_values(const NodeImage& other) const noexcept {
  const LaunchConfig &a = config_, &b = other.config_;
  const bool same_shape = a.grid == b.grid && a.block == b.block && a.shared_bytes == b.shared_bytes &&
                          a.cluster == b.cluster && a.cooperative == b.cooperative && a.programmatic == b.programmatic;
  return function_ == other.function_ && same_shape && block_ == other.block_ && copy_ == other.copy_ &&
         set_ == other.set_ && others_.has_value() == other.others_.has_value() &&
         (!others_ || std::visit(SameOthers(), *others_, *other.others_));
}

}  // namespace reprise::graphs
