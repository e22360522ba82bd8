// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libtorch/optim/optimizer_core.h"
#include "libtorch/replay_part.h"

namespace reprise::libtorch::optim::detail {

/// An optimizer as it was when its step was captured.
struct CapturedStep {
  struct Parameter {
    at::Tensor tensor;
    at::Tensor values;  ///< keeps the memory, also if the tensor gets another one
    const void* memory;
    bool trained;  ///< required a gradient
  };
  struct Group {
    Constants constants;
    std::vector<Parameter> parameters;
  };

  CapturedStep(std::shared_ptr<OptimizerCore> of, const OptimizerCore::Groups& now);

  /// \throws UsageError if groups, parameters or constants are others now.
  void require_unchanged(const OptimizerCore::Groups& now) const;

  std::shared_ptr<OptimizerCore> core;
  std::vector<Group> groups;
};

/// The steps of one capture; then held by its graph. One for each optimizer. Thread-safe.
class CapturedSteps final : public ReplayPart {
 public:
  static std::shared_ptr<CapturedSteps> of(captures::Capture& capture);

  void add(CapturedStep step);
  /// A step was refused: the capture fails at its end, also if its body goes on.
  void refuse(const std::string& text);
  /// Keeps what the graph uses besides, such as the scale of a GradScaler.
  void keep(std::shared_ptr<const void> object);
  /// \throws UsageError with the text of the first refusal.
  bool any() const override;

  /// Compares each optimizer with its captured step, and copies learning rates that have changed.
  void before_replay(const StreamRef& stream) const override;
  void add_to(captures::Capture& parent) const override;

 private:
  mutable std::mutex mutex_;
  std::vector<CapturedStep> steps_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::string refused_;
};

}  // namespace reprise::libtorch::optim::detail
