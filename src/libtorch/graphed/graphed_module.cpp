// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/graphed_module.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <string>
#include <vector>

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

/// A parameter or buffer, and its values in an archive.
struct Loaded {
  std::string name;
  at::Tensor tensor, values;
};

// Reads as torch::nn::Module::load() does, which would give the tensors other memory.
void read(const torch::nn::Module& module, torch::serialize::InputArchive& archive, const std::string& path,
          std::vector<Loaded>& all) {
  const auto read_tensors = [&](const torch::OrderedDict<std::string, at::Tensor>& tensors, bool buffers) {
    for (const auto& [name, tensor] : tensors.pairs())
      archive.read(name, all.emplace_back(Loaded{path + name, tensor, {}}).values, buffers);
  };
  read_tensors(module.named_parameters(/*recurse=*/false), /*buffers=*/false);
  read_tensors(module.named_buffers(/*recurse=*/false), /*buffers=*/true);
  for (const auto& child : module.named_children()) {
    if (!child.value()->is_serializable()) continue;
    torch::serialize::InputArchive part;
    archive.read(child.key(), part);
    read(*child.value(), part, path + child.key() + ".", all);
  }
}

const torch::nn::Module& checked(const std::shared_ptr<torch::nn::Module>& original) {
  if (original == nullptr)
    throw UsageError("GraphedModule expected a module, found an empty pointer: make the module first.");
  return *original;
}

}  // namespace

ModuleStandIn::ModuleStandIn(std::shared_ptr<torch::nn::Module> original)
    : Module(text::format("GraphedModule<{}>", checked(original).name())), original_(std::move(original)) {
  for (const auto& each : original_->named_parameters(/*recurse=*/false))
    register_parameter(each.key(), each.value(), each.value().requires_grad());
  for (const auto& each : original_->named_buffers(/*recurse=*/false)) register_buffer(each.key(), each.value());
  for (const auto& each : original_->named_children()) register_module(each.key(), each.value());
}

void ModuleStandIn::load(torch::serialize::InputArchive& archive) {
  const at::NoGradGuard no_grad;
  std::vector<Loaded> all;
  read(*original_, archive, "", all);
  std::vector<std::string> wrong;
  for (const Loaded& each : all)
    if (!each.values.sizes().equals(each.tensor.sizes()))
      wrong.push_back(text::format("{}: expected [{}], found [{}]", each.name, text::join(each.tensor.sizes(), ", "),
                                   text::join(each.values.sizes(), ", ")));
  if (!wrong.empty())
    throw UsageError(
        text::format("GraphedModule::load: the archive has tensors of other sizes:\n  {}\n"
                     "Graphs cannot change sizes: load it into a module of these sizes, and make a GraphedModule of "
                     "that.",
                     text::join(wrong, "\n  ")));
  for (Loaded& each : all) each.tensor.copy_(each.values);
}

std::shared_ptr<torch::nn::Module> ModuleStandIn::clone(const std::optional<torch::Device>& /*device*/) const {
  throw UsageError(
      text::format("{} cannot be cloned: its graphs use the memory of the original. Clone the original "
                   "(original()->clone()), and make a GraphedModule of the clone.",
                   name()));
}

// Called for this module in the clone of one that contains it. The default does nothing, and values would be missing.
void ModuleStandIn::clone_(torch::nn::Module& /*other*/, const std::optional<torch::Device>& device) {
  static_cast<void>(clone(device));
}

void ModuleStandIn::refuse_mode() const {
  throw UsageError(
      text::format("{}::callable: the module is in {} mode, in which it was not captured: calls run the original. "
                   "Switch with train() or eval(), or call capture() in this mode, too.",
                   name(), is_training() ? "training" : "evaluation"));
}

}  // namespace reprise::libtorch::detail
