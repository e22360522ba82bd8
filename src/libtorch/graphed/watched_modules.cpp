// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/watched_modules.h"

#include <algorithm>
#include <utility>

#include "text/format.h"

namespace reprise::libtorch {
namespace {

using Tensors = torch::OrderedDict<std::string, at::Tensor>;
using Children = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;

// The members of a module without the copies of its public functions, for each call of a graphed callable. Access is
// not checked in explicit instantiations of templates.
const Tensors& parameters_of(const torch::nn::Module& module);
const Tensors& buffers_of(const torch::nn::Module& module);
const Children& children_of(const torch::nn::Module& module);

template <auto parameters, auto buffers, auto children>
struct MemberAccess {
  friend const Tensors& parameters_of(const torch::nn::Module& module) { return module.*parameters; }
  friend const Tensors& buffers_of(const torch::nn::Module& module) { return module.*buffers; }
  friend const Children& children_of(const torch::nn::Module& module) { return module.*children; }
};

struct Access : torch::nn::Module {
  static constexpr auto parameters = &Access::parameters_;
};
template struct MemberAccess<Access::parameters, &torch::nn::Module::buffers_, &torch::nn::Module::children_>;

// True for the same objects, in the same order.
template <class Known, class Found, class Same>
bool same_objects(const Known& known, const Found& found, const Same& same) {
  return found.size() == known.size() && std::equal(known.begin(), known.end(), found.begin(), same);
}

}  // namespace

void WatchedModules::Tensor::remember() {
  if (!tensor.defined()) return;
  data = tensor.const_data_ptr();
  device = tensor.device();
  dtype = tensor.scalar_type();
  sizes = tensor.sizes().vec();
  strides = tensor.strides().vec();
  conjugated = tensor.is_conj();
  negated = tensor.is_neg();
  trained = tensor.requires_grad();
}

std::string WatchedModules::Tensor::change() const {
  if (!tensor.defined()) return "";
  if (tensor.device() != device)
    return text::format("{} was moved from {} to {}", name, device.str(), tensor.device().str());
  if (tensor.scalar_type() != dtype)
    return text::format("{} is of type {} now, and was of type {}", name, c10::toString(tensor.scalar_type()),
                        c10::toString(dtype));
  if (tensor.requires_grad() != trained)
    return text::format("{} {} a gradient now", name, trained ? "does not need" : "needs");
  // The layout of values is a parameter of kernels in the graph, also for the same values at the same address.
  if (!tensor.sizes().equals(sizes) || !tensor.strides().equals(strides))
    return text::format("{} has sizes [{}] and strides [{}] now, and had sizes [{}] and strides [{}]", name,
                        text::join(tensor.sizes(), ", "), text::join(tensor.strides(), ", "), text::join(sizes, ", "),
                        text::join(strides, ", "));
  if (tensor.is_conj() != conjugated)
    return text::format("{} {} the conjugate of its memory now", name, conjugated ? "is not" : "is");
  if (tensor.is_neg() != negated)
    return text::format("{} {} the negative of its memory now", name, negated ? "is not" : "is");
  return tensor.const_data_ptr() == data ? "" : text::format("{} has other memory now", name);
}

WatchedModules::WatchedModules(const std::vector<std::shared_ptr<torch::nn::Module>>& modules,
                               const std::vector<at::Tensor>& parameters) {
  for (const auto& module : modules) add(module, "");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    listed_.push_back({text::format("parameter {}", i), parameters[i]});
  remember();
  for_each_parameter([this](const Tensor& each) {
    if (!each.trained) return;
    if (std::any_of(trained_.begin(), trained_.end(), [&](const auto& known) { return known.is_same(each.tensor); }))
      return;
    trained_.push_back(each.tensor);
    trained_names_.push_back(each.name);
  });
}

void WatchedModules::add(const std::shared_ptr<torch::nn::Module>& module, const std::string& path) {
  if (std::any_of(modules_.begin(), modules_.end(), [&](const Module& each) { return each.module == module; })) return;
  Module made{module, path, module->children(), {}, {}};
  for (const auto& each : parameters_of(*module)) made.parameters.push_back({path + each.key(), each.value()});
  for (const auto& each : buffers_of(*module)) made.buffers.push_back({path + each.key(), each.value()});
  modules_.push_back(std::move(made));
  for (const auto& child : module->named_children()) add(child.value(), path + child.key() + ".");
}

void WatchedModules::remember() {
  for (Module& each : modules_) {
    each.training = each.module->is_training();
    for (auto* const tensors : {&each.parameters, &each.buffers})
      for (Tensor& tensor : *tensors) tensor.remember();
  }
  for (Tensor& each : listed_) each.remember();
}

bool WatchedModules::in_same_mode() const {
  return std::all_of(modules_.begin(), modules_.end(),
                     [](const Module& each) { return each.module->is_training() == each.training; });
}

bool WatchedModules::Module::has_its_parts() const {
  const auto same_tensor = [](const Tensor& was, const auto& is) { return was.tensor.is_same(is.value()); };
  return same_objects(parameters, parameters_of(*module), same_tensor) &&
         same_objects(buffers, buffers_of(*module), same_tensor) &&
         same_objects(children, children_of(*module),
                      [](const auto& was, const auto& is) { return was == is.value(); });
}

void WatchedModules::Module::add_changes(std::vector<std::string>& changes) const {
  const auto compare = [&](const std::vector<Tensor>& known, const Tensors& found, const char* kind) {
    for (const Tensor& was : known) {
      const at::Tensor* const is = found.find(was.name.substr(path.size()));
      if (is == nullptr)
        changes.push_back(text::format("{}{} is gone", kind, was.name));
      else if (!is->is_same(was.tensor))
        changes.push_back(text::format("{}{} is another tensor now", kind, was.name));
    }
    for (const auto& is : found)
      if (std::none_of(known.begin(), known.end(), [&](const Tensor& was) { return was.name == path + is.key(); }))
        changes.push_back(text::format("{}{}{} is new", kind, path, is.key()));
  };
  compare(parameters, parameters_of(*module), "");
  compare(buffers, buffers_of(*module), "buffer ");
  if (module->children() != children)
    changes.push_back(path.empty()
                          ? "modules in it were added, removed or replaced"
                          : "modules in " + path.substr(0, path.size() - 1) + " were added, removed or replaced");
}

std::vector<std::string> WatchedModules::changes() const {
  std::vector<std::string> changes;
  const auto look_at = [&](const std::vector<Tensor>& tensors) {
    for (const Tensor& each : tensors)
      if (std::string change = each.change(); !change.empty()) changes.push_back(std::move(change));
  };
  for (const Module& each : modules_) {
    if (!each.has_its_parts()) each.add_changes(changes);
    look_at(each.parameters);
    look_at(each.buffers);
  }
  look_at(listed_);
  return changes;
}

template <class F>
void WatchedModules::for_each_parameter(F&& f) const {
  for (const Module& module : modules_)
    for (const Tensor& each : module.parameters) f(each);
  for (const Tensor& each : listed_) f(each);
}

std::uint64_t WatchedModules::versions() const {
  std::uint64_t sum = 0;
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    sum += reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
    if (!tensor.is_inference()) sum += tensor._version();
  };
  for_each_parameter([&](const Tensor& each) { add(each.tensor); });
  // No backward needs the values of whole numbers, and batch norm counts by one.
  for (const Module& module : modules_)
    for (const Tensor& each : module.buffers)
      if (each.tensor.defined() && !c10::isIntegralType(each.tensor.scalar_type(), /*includeBool=*/true))
        add(each.tensor);
  return sum;
}

std::vector<std::pair<std::string, at::Tensor>> WatchedModules::named_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for_each_parameter([&](const Tensor& each) {
    const auto is_it = [&](const auto& known) { return known.second.is_same(each.tensor); };
    if (each.tensor.defined() && std::none_of(all.begin(), all.end(), is_it)) all.emplace_back(each.name, each.tensor);
  });
  return all;
}

std::vector<at::Tensor> WatchedModules::buffers() const {
  std::vector<at::Tensor> all;
  for (const Module& module : modules_)
    for (const Tensor& each : module.buffers)
      if (each.tensor.defined()) all.push_back(each.tensor);
  return all;
}

std::vector<std::string> WatchedModules::trained_buffers() const {
  std::vector<std::string> names;
  for (const Module& module : modules_)
    for (const Tensor& each : module.buffers)
      if (each.trained) names.push_back(each.name);
  return names;
}

}  // namespace reprise::libtorch
