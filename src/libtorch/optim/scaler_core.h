// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "captures/registry.h"
#include "libtorch/optim/optimizer_core.h"
#include "reprise/libtorch/grad_scaler.h"

namespace reprise::libtorch::detail {

/// Data that graphs share with a GradScaler: its values on the device. And its protocol, which is the host's: where
/// each optimizer is between unscale_() and update(), for eager work and for each capture.
struct ScalerCore : std::enable_shared_from_this<ScalerCore> {
  using OptimizerCore = optim::detail::OptimizerCore;

  /// An optimizer between unscale_() and update().
  struct Round {
    std::weak_ptr<OptimizerCore> optimizer;
    std::uint64_t capture = 0;  // its id; 0: eager work
    at::Tensor found_inf;       // float32, 1 if a gradient is infinite or not a number
    bool stepped = false;
  };

  ScalerCore(c10::Device of, const GradScalerOptions& wanted);

  void refuse_in_capture(const char* what) const;
  std::uint64_t enter();
  Round* round_of(const std::shared_ptr<OptimizerCore>& optimizer, std::uint64_t capture);
  std::vector<at::Tensor> gradients_of(const OptimizerCore& optimizer, const char* what) const;
  void add_round(const std::shared_ptr<OptimizerCore>& optimizer, std::uint64_t capture, const char* what);

  c10::Device device;
  const GradScalerOptions options;
  at::Tensor scale;           // float32
  at::Tensor growth_tracker;  // int32: iterations without an overflow since the last growth
  at::Tensor skipped;         // int64
  std::vector<Round> rounds;
};

}  // namespace reprise::libtorch::detail
