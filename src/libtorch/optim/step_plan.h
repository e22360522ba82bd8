// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "libtorch/optim/optimizer_core.h"
#include "reprise/libtorch/graphed_step.h"

namespace reprise::libtorch::detail {

/// Contents of the graphs of a step, and which of them is next.
///
/// A step over k micro-batches has up to three graphs, which share a pool:
///
///     first     its backward makes the gradients, in memory of the graph     none for k = 1
///     between   adds to them                                                 none for k < 3
///     last      adds to them, or makes them for k = 1; then the optimizer's step
///
/// So gradients are never set to zero: as in eager code after zero_grad(), the first backward of a step replaces them.
///
///     StepPlan()  checks the options
///     make()      warms up and captures, which calls run() for each graph
///     calls       next_graph(), a replay, called()
///
/// Optimizer, scaler and options are used until the end of make() only. One thread at a time.
class StepPlan {
 public:
  StepPlan(torch::optim::Optimizer& optimizer, GraphedStepOptions options);
  StepPlan(const StepPlan&) = delete;
  StepPlan& operator=(const StepPlan&) = delete;

  std::size_t graphs() const { return static_cast<std::size_t>(accumulate_ < 3 ? accumulate_ : 3); }
  at::Tensor run(std::size_t graph, const std::function<at::Tensor()>& forward);
  std::vector<std::shared_ptr<GraphedFunction>> make(std::vector<GraphedSource> sources);

  std::size_t next_graph() const {
    if (micro_batch_ == accumulate_ - 1) return graphs() - 1;
    return micro_batch_ == 0 ? 0 : 1;
  }
  void called() noexcept { micro_batch_ = (micro_batch_ + 1) % accumulate_; }
  int accumulated() const noexcept { return micro_batch_; }
  void discard() noexcept { micro_batch_ = 0; }

 private:
  void find_leaves(GraphedSource& source);
  std::vector<at::Tensor> state() const;
  void check_loss(const at::Tensor& loss) const;
  void take_step();
  void clip() const;

  const int accumulate_;
  int micro_batch_ = 0;  // of the next call
  GraphedStepOptions options_;
  torch::optim::Optimizer* optimizer_;
  std::shared_ptr<optim::detail::OptimizerCore> core_;
  std::vector<at::Tensor> leaves_;  // all parameters, each once
};

}  // namespace reprise::libtorch::detail
