// SPDX-License-Identifier: Apache-2.0
#include "libtorch/optim/captured_steps.h"

#include <algorithm>
#include <utility>

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch::optim::detail {
namespace {

const void* memory_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.const_data_ptr() : nullptr;
}

}  // namespace

CapturedStep::CapturedStep(std::shared_ptr<OptimizerCore> of, const OptimizerCore::Groups& now) : core(std::move(of)) {
  for (const auto& group : now) {
    Group& added = groups.emplace_back();
    added.constants = core->method().constants_of(group.options());
    for (const at::Tensor& each : group.params())
      added.parameters.push_back({each, each.detach(), memory_of(each), each.requires_grad()});
  }
}

void CapturedStep::require_unchanged(const OptimizerCore::Groups& now) const {
  const Method& method = core->method();
  bool same_parameters = now.size() == groups.size();
  for (std::size_t i = 0; same_parameters && i < groups.size(); ++i) {
    const Group& group = groups[i];
    same_parameters =
        std::ranges::equal(now[i].params(), group.parameters, [](const at::Tensor& tensor, const Parameter& parameter) {
          return tensor.is_same(parameter.tensor) && memory_of(tensor) == parameter.memory &&
                 tensor.requires_grad() == parameter.trained;
        });
    const Constants constants = method.constants_of(now[i].options());
    for (std::size_t k = 0; k < constants.size(); ++k)
      if (constants.at(k).second != group.constants.at(k).second)
        throw UsageError(text::format(
            "{}::step was captured with {} = {} in parameter group {}, and the option is {} now. A graph "
            "keeps the options of its capture, except for the learning rate: restore the option, or "
            "capture again.",
            method.name(), constants.at(k).first, group.constants.at(k).second, i, constants.at(k).second));
  }
  if (!same_parameters)
    throw UsageError(
        text::format("{}::step was captured with other parameters than the optimizer has now: groups or parameters "
                     "were added or removed, moved to other memory or converted, or their need of gradients has "
                     "changed. A graph trains the parameters of its capture: capture again.",
                     method.name()));
}

std::shared_ptr<CapturedSteps> CapturedSteps::of(captures::Capture& capture) {
  return std::static_pointer_cast<CapturedSteps>(capture.get_or_attach<CapturedSteps>(replay_part));
}

void CapturedSteps::add(CapturedStep step) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(steps_, step.core, &CapturedStep::core);
  if (known == steps_.end())
    steps_.push_back(std::move(step));
  else
    known->groups = std::move(step.groups);
}

void CapturedSteps::keep(std::shared_ptr<const void> object) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(kept_, object) == kept_.end()) kept_.push_back(std::move(object));
}

void CapturedSteps::refuse(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (refused_.empty()) refused_ = text;
}

bool CapturedSteps::any() const {
  const std::lock_guard lock(mutex_);
  if (std::string text = refused_; !text.empty()) throw UsageError(std::move(text));
  return !steps_.empty() || !kept_.empty();
}

// Replays of different graphs may be underway at once; the steps of a captured graph do not change any more.
void CapturedSteps::before_replay(const StreamRef& stream) const {
  for (const CapturedStep& step : steps_)
    step.core->with_groups([&](const OptimizerCore::Groups& now) { step.require_unchanged(now); });
  for (const CapturedStep& step : steps_) step.core->update_rates(stream);
}

void CapturedSteps::add_to(captures::Capture& parent) const {
  const auto steps = of(parent);
  if (steps == nullptr) return;
  // The steps of a captured graph do not change any more.
  for (const CapturedStep& each : steps_) steps->add(each);
  for (const auto& each : kept_) steps->keep(each);
}

}  // namespace reprise::libtorch::optim::detail
