// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/graphed_module.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <string>

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

using Named = std::pair<std::string, at::Tensor>;

// Parameters and buffers of a module and all modules in it.
std::vector<Named> state_of(const torch::nn::Module& module) {
  std::vector<Named> all;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()})
    for (const auto& each : tensors)
      if (each.value().defined()) all.emplace_back(each.key(), each.value());
  return all;
}

// On one device libtorch's load would take the bytes of another type for those of a tensor's own.
void require_types(const torch::nn::Module& module, torch::serialize::InputArchive& archive, const std::string& path) {
  const auto check = [&](const torch::OrderedDict<std::string, at::Tensor>& tensors, bool buffers) {
    for (const auto& [name, tensor] : tensors.pairs()) {
      at::Tensor found;
      if (!tensor.defined() || !archive.try_read(name, found, buffers) || !found.defined()) continue;
      if (found.device() == tensor.device() && found.scalar_type() != tensor.scalar_type())
        throw UsageError(
            text::format("GraphedModule::load: {}{} is {}, and in the archive {}. Load it by way of the CPU, "
                         "torch::load(module, file, torch::kCPU), and the values are converted.",
                         path, name, c10::toString(tensor.scalar_type()), c10::toString(found.scalar_type())));
    }
  };
  check(module.named_parameters(/*recurse=*/false), /*buffers=*/false);
  check(module.named_buffers(/*recurse=*/false), /*buffers=*/true);
  for (const auto& child : module.named_children())
    if (torch::serialize::InputArchive part; archive.try_read(child.key(), part))
      require_types(*child.value(), part, text::format("{}{}.", path, child.key()));
}

// The memory of a module's state, which a load replaces. Puts it back in its place at the end of the scope.
class KeptMemory {
 public:
  explicit KeptMemory(const torch::nn::Module& module) {
    for (auto& [name, tensor] : state_of(module)) {
      at::Tensor memory = tensor.detach();
      kept_.push_back({std::move(name), std::move(tensor), std::move(memory)});
    }
  }
  ~KeptMemory() {
    try {
      restore();
    } catch (const std::exception& error) {
      warn(text::format("GraphedModule::load could not restore the memory of all parameters: {}", error.what()));
    }
  }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  // Restores it, with the values that the tensors have now.
  void take_values() {
    const at::NoGradGuard no_grad;
    check_sizes();
    std::vector<at::Tensor> values;
    for (const Kept& each : kept_) values.push_back(each.tensor.detach());
    restore();
    for (std::size_t i = 0; i < kept_.size(); ++i) kept_[i].memory.copy_(values[i]);
  }

 private:
  struct Kept {
    std::string name;
    at::Tensor tensor, memory;
  };

  void check_sizes() const {
    std::vector<std::string> wrong;
    for (const Kept& each : kept_)
      if (!each.tensor.sizes().equals(each.memory.sizes()))
        wrong.push_back(text::format("{}: expected [{}], found [{}]", each.name, text::join(each.memory.sizes(), ", "),
                                     text::join(each.tensor.sizes(), ", ")));
    if (!wrong.empty())
      throw UsageError(
          text::format("GraphedModule::load: the archive has tensors of other sizes:\n  {}\n"
                       "Graphs cannot change sizes: load it into a module of these sizes, and make a GraphedModule of "
                       "that.",
                       text::join(wrong, "\n  ")));
  }

  void restore() const {
    for (const Kept& each : kept_) each.tensor.set_data(each.memory);
  }

  std::vector<Kept> kept_;
};

c10::Device with_index(c10::Device device) {
  if (device.has_index() || device.is_cpu()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

// Throws if a conversion would change the state of a module. Batch norm counts in whole numbers.
void require_unchanged(const torch::nn::Module& module, std::optional<c10::Device> device,
                       std::optional<c10::ScalarType> type) {
  if (device) device = with_index(*device);
  for (const auto& [name, tensor] : state_of(module)) {
    const bool counts = type && !c10::isIntegralType(*type, /*includeBool=*/true) &&
                        c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
    if ((!device || tensor.device() == *device) && (!type || counts || tensor.scalar_type() == *type)) continue;
    throw UsageError(text::format(
        "GraphedModule::to: {} is {} on {}, and would become {} on {}, in other memory than that of the graphs. "
        "Convert a module first, and make the GraphedModule afterwards.",
        name, c10::toString(tensor.scalar_type()), tensor.device().str(),
        c10::toString(type.value_or(tensor.scalar_type())), device.value_or(tensor.device()).str()));
  }
}

// The protected members of a module.
struct DefaultArguments : torch::nn::Module {
  static constexpr auto has = &DefaultArguments::_forward_has_default_args;
  static constexpr auto required = &DefaultArguments::_forward_num_required_args;
  static constexpr auto populate = &DefaultArguments::_forward_populate_default_args;
};

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

// The original's own load gives tensors the memory of the archive.
void ModuleStandIn::load(torch::serialize::InputArchive& archive) {
  require_types(*original_, archive, "");
  KeptMemory memory(*original_);
  original_->load(archive);
  memory.take_values();
}

void ModuleStandIn::to(torch::Device device, torch::Dtype dtype, bool /*non_blocking*/) {
  require_unchanged(*original_, device, dtype);
}

void ModuleStandIn::to(torch::Dtype dtype, bool /*non_blocking*/) {
  require_unchanged(*original_, std::nullopt, dtype);
}

void ModuleStandIn::to(torch::Device device, bool /*non_blocking*/) {
  require_unchanged(*original_, device, std::nullopt);
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

void ModuleStandIn::pretty_print(std::ostream& stream) const {
  stream << "graphed ";
  original_->pretty_print(stream);
}

bool ModuleStandIn::_forward_has_default_args() {
  return ((*original_).*DefaultArguments::has)();
}

unsigned int ModuleStandIn::_forward_num_required_args() {
  return ((*original_).*DefaultArguments::required)();
}

std::vector<torch::nn::AnyValue> ModuleStandIn::_forward_populate_default_args(
    std::vector<torch::nn::AnyValue>&& arguments) {
  return ((*original_).*DefaultArguments::populate)(std::move(arguments));
}

void ModuleStandIn::refuse_mode() const {
  throw UsageError(
      text::format("{}::callable: the module is in {} mode, in which it was not captured: calls run the original. "
                   "Switch with train() or eval(), or call capture() in this mode, too.",
                   name(), is_training() ? "training" : "evaluation"));
}

}  // namespace reprise::libtorch::detail
