// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libtorch/optim/method.h"
#include "reprise/stream.h"

namespace reprise::libtorch::optim::detail {

/// Data that graphs share with the optimizer whose steps they contain: its state, its learning rates, and the groups
/// with their options, as long as the optimizer is there.
///
/// Threads: as the optimizer; update_rates() and with_groups() also on threads that replay.
class OptimizerCore {
 public:
  using Group = torch::optim::OptimizerParamGroup;
  using Groups = std::vector<Group>;

  /// \param groups the optimizer's, which calls close() before they end.
  OptimizerCore(std::unique_ptr<const Method> method, Groups& groups) : method_(std::move(method)), groups_(&groups) {}
  /// The optimizer ends: nothing is compared with its groups any more.
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    groups_ = nullptr;
  }

  const Method& method() const { return *method_; }

  /// Makes the state of parameters and the learning rates that are not there yet.
  /// \param what the call, for errors: "step".
  /// \throws UsageError in a capture if something has to be made; for parameters that cannot be trained.
  void prepare(const char* what);
  /// Takes a step on the current stream, or captures one: CapturableOptimizer::step().
  static void step(const std::shared_ptr<OptimizerCore>& core);
  at::Tensor rate(std::size_t group) const { return rates_.at(group).value; }
  /// The next update_rates() copies all.
  void forget_rates() noexcept {
    const std::lock_guard lock(mutex_);
    for (Rate& each : rates_) each.copied = unknown;
  }

  /// Parameters of all groups. Must not be called after the optimizer was destroyed.
  std::vector<at::Tensor> parameters() const;
  /// All that steps change besides parameters, and the learning rates.
  std::vector<at::Tensor> state() const;

  std::unique_ptr<torch::optim::Optimizer> twin(const torch::optim::OptimizerOptions& defaults) const;
  void load_from(torch::optim::Optimizer& twin);
  void refuse_in_capture(const char* what) const;

  /// Copies learning rates that have changed to the device, on the current stream or another one. Not if the optimizer
  /// has ended.
  void update_rates(const std::optional<StreamRef>& stream = {});
  /// Further steps change nothing if this number on the device is 1: StepOfGroup::found_inf.
  void skip_if(at::Tensor found_inf) { found_inf_ = std::move(found_inf); }
  /// Calls `f` with the groups while they cannot end; not if the optimizer has ended.
  template <class F>
  void with_groups(const F& f) const {
    const std::lock_guard lock(mutex_);
    if (groups_ != nullptr) f(*groups_);
  }

 private:
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  struct Rate {
    at::Tensor value;
    double copied = unknown;  // what was copied there last
  };

  c10::Device device() const;
  void require_trainable(const char* what, std::size_t group, std::size_t number) const;
  const ParameterState* state_of(const at::Tensor& parameter) const;
  bool lacks_state(const Method::Options& options, const ParameterState& state) const;
  ParameterState& own_state(const Method::Options& options, const at::Tensor& parameter);
  void make_state(const char* what, std::size_t group, std::size_t number, bool capturing);
  bool has_rate(std::size_t group) const;
  void make_rates(const char* what, bool capturing);
  void require_distinct(const char* what) const;
  void add_to(std::vector<StepOfGroup>& steps, std::size_t group, std::size_t number, bool capturing);
  void take_step(bool capturing);
  std::string parameter_text(std::size_t group, std::size_t number) const;

  const std::unique_ptr<const Method> method_;
  mutable std::mutex mutex_;  // guards `copied` of rates, and the end of groups
  Groups* groups_;            // null once the optimizer has ended
  std::vector<Rate> rates_;   // by group
  std::unordered_map<c10::TensorImpl*, ParameterState> states_;
  std::vector<at::Tensor> parameters_;  // of states_, whose keys they keep
  at::Tensor found_inf_;                // skip_if()
};

/// The core of an optimizer whose steps can be captured.
/// \param what the call, for errors: "GradScaler::step".
/// \throws UsageError for another optimizer, with what to use instead.
std::shared_ptr<OptimizerCore> core_of(const torch::optim::Optimizer& optimizer, const char* what);

}  // namespace reprise::libtorch::optim::detail
