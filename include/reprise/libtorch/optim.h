// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/sgd.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// Optimizers whose `step()` can be captured: docs/training.md.

namespace reprise::libtorch::optim {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

namespace detail {
class OptimizerCore;
class Method;
std::shared_ptr<OptimizerCore> core_of(const torch::optim::Optimizer& optimizer, const char* what);
}  // namespace detail

/// An optimizer whose whole state is on the device, the count of steps and the learning rate, too: each replay of a
/// graph that captured `step()` takes the next step. The base of SGD, Adam and AdamW.
///
/// Otherwise a torch::optim::Optimizer: `param_groups()`, `zero_grad()`, schedulers of the learning rate and
/// `torch::save` work as they do there. `state()` is empty.
///
/// *Parameters* are dense real tensors of one device, of any floating-point type. Their state is allocated when the
/// optimizer is made, or by add_param_group(), on the current stream. A step() outside of captures adds what an option
/// or a parameter that has changed needs.
///
/// *Learning rate.* The device reads it in each step. What the options of a group say (`options().set_lr(0.01)`, or a
/// scheduler) is copied there by the next step() outside of captures, and right before the next replay, on its stream.
/// Only a value that has changed is copied, so that what work on the device wrote to learning_rate() stays.
///
/// *Graphs.* A graph that contains a step keeps parameters and state, also after the optimizer has ended. All other
/// options are in the graph as they were at its capture. A replay throws UsageError if one of them has changed since,
/// or if groups, parameters or their memory have. This needs reprise::CUDAGraph: other graphs have no such checks, and
/// take learning rates from learning_rate() alone.
///
/// *Threads.* As torch::optim::Optimizer: one call at a time. While another thread replays a graph with its step,
/// options and groups must not be changed.
class REPRISE_EXPORT CapturableOptimizer : public torch::optim::Optimizer {
 public:
  ~CapturableOptimizer() override;
  CapturableOptimizer(const CapturableOptimizer&) = delete;
  CapturableOptimizer& operator=(const CapturableOptimizer&) = delete;

  /// Takes a step on the current stream, or captures one.
  /// \param closure computes the loss anew, with gradients; may be empty.
  /// \returns the loss of the closure; undefined without one.
  /// \throws UsageError in a capture, if a parameter that requires a gradient has none, or if its state is not there
  ///         yet; anywhere, for a sparse gradient, or if a parameter was moved or converted. Outside of captures
  ///         parameters without gradient are left alone.
  at::Tensor step(LossClosure closure = nullptr) override;

  /// The learning rate of a group on the device: a tensor without dimensions, of type float64 (Adam and AdamW: float32,
  /// as libtorch's kernels require). Work on the device may write to it, in a graph as well.
  /// \throws UsageError for a group that does not exist.
  at::Tensor learning_rate(std::size_t group = 0);

  /// Sets the learning rate of all groups, in their options. The next step or replay copies it to the device, also if
  /// the options had that value before.
  void set_learning_rate(double rate);

  /// As torch::optim::Optimizer, and allocates the state of the parameters. Graphs that were captured before cannot be
  /// replayed any more.
  /// \throws UsageError in a capture, or for parameters that cannot be trained.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

  /// Writes what torch::optim's optimizer of the same name writes, which can load it. Waits for the current stream,
  /// since that has the count of steps on the host.
  /// \throws UsageError in a capture.
  void save(torch::serialize::OutputArchive& archive) const override;

  /// Reads an archive of this optimizer, or of torch::optim's of the same name. Values are copied into the state that
  /// graphs use, in the order of the current stream; parameters without a state in the archive begin anew. Options are
  /// those of the archive.
  /// \throws UsageError in a capture, or for a state of other sizes; c10::Error for an archive that does not fit. Then
  ///         nothing has changed.
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  /// \throws UsageError in a capture, or for parameters that cannot be trained.
  CapturableOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                      std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                      std::unique_ptr<const detail::Method> method);

 private:
  friend std::shared_ptr<detail::OptimizerCore> detail::core_of(const torch::optim::Optimizer& optimizer,
                                                                const char* what);
  const std::shared_ptr<detail::OptimizerCore> core_;  // graphs share it
};

/// Stochastic gradient descent, with momentum and weight decay; the results of torch::optim::SGD, to the last bit, but
/// for parameters of 16 bits on CUDA, which are rounded once more. Dampening that is set after the optimizer was made
/// applies to the next step, also if that is the first one.
class REPRISE_EXPORT SGD : public CapturableOptimizer {
 public:
  /// \throws c10::Error for options that torch::optim::SGD refuses, UsageError as CapturableOptimizer.
  SGD(const std::vector<torch::optim::OptimizerParamGroup>& groups, SGDOptions defaults);
  SGD(std::vector<at::Tensor> parameters, SGDOptions defaults);
};

/// Adam, by libtorch's fused operator: on a CUDA device the results of Python's
/// `torch.optim.Adam(..., lr=torch.tensor(lr, device="cuda"), fused=True, capturable=True)`, to the last bit, and those
/// of torch::optim::Adam but for rounding.
class REPRISE_EXPORT Adam : public CapturableOptimizer {
 public:
  /// \throws c10::Error for options that torch::optim::Adam refuses, UsageError as CapturableOptimizer.
  explicit Adam(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamOptions defaults = {});
  explicit Adam(std::vector<at::Tensor> parameters, AdamOptions defaults = {});
};

/// Adam with decoupled weight decay, likewise.
class REPRISE_EXPORT AdamW : public CapturableOptimizer {
 public:
  /// \throws c10::Error for options that torch::optim::AdamW refuses, UsageError as CapturableOptimizer.
  explicit AdamW(const std::vector<torch::optim::OptimizerParamGroup>& groups, AdamWOptions defaults = {});
  explicit AdamW(std::vector<at::Tensor> parameters, AdamWOptions defaults = {});
};

}  // namespace reprise::libtorch::optim
