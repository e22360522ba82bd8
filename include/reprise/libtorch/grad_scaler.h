// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// GradScaler: gradient scaling of mixed precision without the host, for captured training steps.

namespace reprise::libtorch {

namespace detail {
struct ScalerCore;
class StepPlan;
}  // namespace detail

/// Options of GradScaler: those of Python's `torch.amp.GradScaler`.
struct GradScalerOptions {
  double init_scale = 65536;    ///< above 0
  double growth_factor = 2;     ///< of the scale, after `growth_interval` steps in a row without an overflow; above 1
  double backoff_factor = 0.5;  ///< of the scale, after a step with an overflow; above 0, below 1
  int growth_interval = 2000;   ///< steps; 1 or more
  bool enabled = true;  ///< false: scale() returns what it gets, step() is the optimizer's, update() does nothing
};

/// Scales losses, so that gradients of 16 bits do not become zero, and skips optimizer steps whose gradients are
/// infinite or not a number: Python's `torch.amp.GradScaler`, without its wait for the device. The scale, its growth
/// and the decision to skip stay on the device, so that forward, backward and step can be captured as one graph:
///
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);     // only if gradients are clipped, or read, before the step
///     scaler.step(optimizer);
///     scaler.update();
///
/// A skipped step leaves parameters and the optimizer's state as they are, to the last bit; the count of steps, too.
///
/// *Protocol.* For each optimizer: unscale_() once, or not at all, then step() once, then update() once for all. A
/// capture has a protocol of its own, from its begin to its end: what it leaves half done does not count outside.
///
/// *Optimizers* are those of reprise::libtorch::optim, whose parameters are on the device of the scaler.
///
/// *Graphs* that use a scaler keep its memory, also after it has ended. Its options are fixed at the capture.
///
/// *Threads.* One call at a time.
class REPRISE_EXPORT GradScaler {
 public:
  /// Allocates the scale on the current stream.
  /// \param device of the losses and gradients: a CUDA device, the host device or the CPU.
  /// \param options see there.
  /// \throws UsageError for an option out of its range, or in a capture.
  explicit GradScaler(c10::Device device, const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  /// Returns a loss times the scale, with its history.
  /// \throws UsageError for an undefined tensor, or one of another device.
  at::Tensor scale(const at::Tensor& outputs);

  /// Divides the gradients of an optimizer's parameters by the scale, in place, and notes on the device whether any of
  /// them is infinite or not a number.
  /// \throws UsageError if they were divided already since the last update(), or step() was called; for sparse
  ///         gradients, those of 16 bits, and those of other devices; for an optimizer that counts on the host. Nothing
  ///         has changed then.
  void unscale_(torch::optim::Optimizer& optimizer);

  /// Takes the optimizer's step, or captures it, with gradients that are divided by the scale; this first calls
  /// unscale_() unless that was called. If a gradient is infinite or not a number, the step changes nothing.
  /// \throws UsageError if no parameter has a gradient, if step() was called already since the last update(), and as
  ///         unscale_() and the optimizer's step().
  void step(torch::optim::Optimizer& optimizer);

  /// Sets the scale for the next iteration: times `backoff_factor` if a step was skipped, times `growth_factor` if none
  /// was for `growth_interval` iterations.
  /// \param new_scale sets this scale instead, a number above zero. In a graph, at each replay.
  /// \throws UsageError if no step() or unscale_() came since the last update(), or for such a scale.
  void update(std::optional<double> new_scale = {});

  /// Returns the scale; 1 if the scaler is not enabled. Waits for the current stream.
  /// \throws UsageError in a capture.
  /// \throws Error if the scale is not a finite number above zero: from then on all steps would be skipped.
  double get_scale() const;

  /// Returns how many steps were skipped since the scaler was made, or as many as the loaded archive had. Waits for the
  /// current stream.
  /// \throws UsageError in a capture.
  std::int64_t skipped_steps() const;

  /// Writes the entries of Python's `state_dict()`, and the number of skipped steps. Waits for the current stream.
  /// torch::save() calls it.
  /// \throws UsageError in a capture.
  void save(torch::serialize::OutputArchive& archive) const;

  /// Copies scale, growth and the number of skipped steps into the memory that graphs use. torch::load() calls it.
  /// \throws UsageError in a capture, or if the archive has other factors or another interval than this scaler: graphs
  ///         would keep the old ones; c10::Error for an archive that does not fit. Nothing has changed then.
  void load(torch::serialize::InputArchive& archive);

 private:
  friend class detail::StepPlan;
  const std::shared_ptr<detail::ScalerCore> core_;  // graphs share it
};

/// For torch::save().
inline torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive, const GradScaler& scaler) {
  scaler.save(archive);
  return archive;
}

/// For torch::load().
inline torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, GradScaler& scaler) {
  scaler.load(archive);
  return archive;
}

}  // namespace reprise::libtorch
