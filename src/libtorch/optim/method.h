// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
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

/// Parameters of one group and one type that take a step.
struct StepOfGroup {
  const torch::optim::OptimizerOptions& options;
  at::Tensor rate;  ///< of the group
  /// Float32 without dimensions: 1 if the step changes nothing, 0 if it is an ordinary one. Undefined: always ordinary.
  at::Tensor found_inf;
  std::vector<at::Tensor> parameters = {}, gradients = {};
  std::vector<ParameterState*> states = {};
};

/// The values of a group's options that are fixed when a step is captured: all but the learning rate.
using Constants = std::array<double, 5>;

/// Behaviour in which optimizers differ. Without a state of its own; thread-safe.
class Method {
 public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  using Options = torch::optim::OptimizerOptions;
  /// Our state of a parameter; null if there is none.
  using StateOf = std::function<const ParameterState*(const at::Tensor& parameter)>;

  virtual ~Method() = default;

  virtual const char* name() const = 0;  ///< with its namespace
  virtual c10::ScalarType rate_type() const = 0;
  virtual const std::array<const char*, 5>& constant_names() const = 0;  ///< null after the last
  virtual Constants constants_of(const Options& options) const = 0;

  virtual bool lacks_state(const Options& options, const ParameterState& state) const = 0;
  /// Adds what the options need and `state` lacks, with its initial values.
  virtual void add_state(const Options& options, const at::Tensor& parameter, ParameterState& state) const = 0;
  /// Resets all of a state to its initial values, in place.
  virtual void clear(ParameterState& state) const = 0;
  virtual void step(const StepOfGroup& group) const = 0;

  /// An optimizer of torch::optim with these groups and options, without states.
  virtual std::unique_ptr<torch::optim::Optimizer> twin(const Groups& groups, const Options& defaults) const = 0;
  /// Gives a twin the states of its parameters; waits for the stream.
  virtual void copy_states(const StateOf& state_of, torch::optim::Optimizer& twin) const = 0;
  /// The tensors of the state that a twin has of a parameter, undefined ones included, and its count of steps in a
  /// tensor; all undefined if it has none.
  virtual ParameterState state_in(torch::optim::Optimizer& twin, const at::Tensor& parameter) const = 0;
  /// Copies all values.
  virtual void assign(const Options& from, Options& to) const = 0;
};

std::unique_ptr<const Method> sgd_method();
std::unique_ptr<const Method> adam_method();
std::unique_ptr<const Method> adamw_method();

}  // namespace reprise::libtorch::optim::detail
