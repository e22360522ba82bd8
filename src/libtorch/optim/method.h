// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace reprise::libtorch::optim::detail {

/// State of an optimizer for one parameter, on its device. Tensors that the options do not need are undefined; a
/// tensor that is there is never replaced, since graphs have its address.
struct ParameterState {
  at::Tensor step, exp_avg, exp_avg_sq, max_exp_avg_sq;  ///< Adam and AdamW; `step` is a float32
  /// SGD. Negative zeros before the first step, so that the first update is added to them without a change, even of the
  /// sign of a zero.
  at::Tensor momentum_buffer;
  at::Tensor is_new;  ///< SGD with dampening: true before the first step, which is not dampened
};

/// A tensor of a ParameterState.
struct StatePart {
  at::Tensor ParameterState::*tensor;
  double first = 0;                          ///< its values before the first step
  double later = 0;                          ///< its first values next to others that were there before
  std::optional<c10::ScalarType> type = {};  ///< that of a single number; else it is like the parameter
};
inline constexpr std::array<StatePart, 6> state_parts{{{&ParameterState::step, 0, 0, c10::kFloat},
                                                       {&ParameterState::exp_avg},
                                                       {&ParameterState::exp_avg_sq},
                                                       {&ParameterState::max_exp_avg_sq},
                                                       {&ParameterState::momentum_buffer, -0.0, -0.0},
                                                       {&ParameterState::is_new, 1, 0, c10::kBool}}};

/// Parameters of one group and one type that take a step.
struct StepOfGroup {
  const torch::optim::OptimizerOptions& options;
  at::Tensor rate;  ///< of the group
  /// Float32 without dimensions: 1 if the step changes nothing, 0 if it is an ordinary one. Undefined: always ordinary.
  at::Tensor found_inf;
  std::vector<at::Tensor> parameters = {}, gradients = {};
  std::vector<ParameterState*> states = {};
};

/// The options of a group that are fixed when a step is captured, all but the learning rate, with their names.
using Constants = std::array<std::pair<const char*, double>, 5>;

/// Behaviour in which optimizers differ. Without a state of its own; thread-safe.
class Method {
 public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  using Options = torch::optim::OptimizerOptions;
  using TorchState = torch::optim::OptimizerParamState;

  virtual ~Method() = default;

  virtual const char* name() const = 0;  ///< with its namespace
  virtual c10::ScalarType rate_type() const = 0;
  virtual Constants constants_of(const Options& options) const = 0;
  /// The state that the options need.
  virtual std::span<const StatePart> parts(const Options& options) const = 0;
  virtual void step(const StepOfGroup& group) const = 0;

  /// An optimizer of torch::optim with these groups and options, without states.
  virtual std::unique_ptr<torch::optim::Optimizer> twin(const Groups& groups, const Options& defaults) const = 0;
  /// A state as a twin has it; null before its first step. Waits for the stream.
  virtual std::unique_ptr<TorchState> to_torch(const ParameterState& state) const = 0;
  /// The state that a twin has, with its count of steps in a tensor.
  virtual ParameterState from_torch(const TorchState& state) const = 0;
  /// Copies all values.
  virtual void assign(const Options& from, Options& to) const = 0;
};

/// What follows from the types of torch::optim.
template <class Optimizer, class OptimizerOptions>
class MethodOf : public Method {
 public:
  std::unique_ptr<torch::optim::Optimizer> twin(const Groups& groups, const Options& defaults) const override {
    return std::make_unique<Optimizer>(groups, of(defaults));
  }
  void assign(const Options& from, Options& to) const override { static_cast<OptimizerOptions&>(to) = of(from); }

 protected:
  static const OptimizerOptions& of(const Options& options) { return static_cast<const OptimizerOptions&>(options); }
};

std::unique_ptr<const Method> sgd_method();
std::unique_ptr<const Method> adam_method();
std::unique_ptr<const Method> adamw_method();

}  // namespace reprise::libtorch::optim::detail
