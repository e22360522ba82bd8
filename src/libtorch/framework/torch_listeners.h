// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "graph/capture/framework_captures.h"
#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/operators/autocast_cache.h"
#include "libtorch/operators/host_counters.h"
#include "libtorch/operators/operator_listener.h"
#include "libtorch/replay_part.h"

namespace reprise::libtorch {

/// The listeners of libtorch in one graph.
class TorchListeners final : public graphs::FrameworkListeners {
 public:
  std::vector<graphs::CaptureListener*> in_order() override {
    std::vector<graphs::CaptureListener*> all{&operators, &autocast, &counters, &replay_part};
    if (cuda != nullptr)
      for (graphs::CaptureListener* const listener : cuda->in_order()) all.push_back(listener);
    return all;
  }
  std::shared_ptr<void> save_generators() const override { return cuda != nullptr ? cuda->save_generators() : nullptr; }

  OperatorListener operators;
  AutocastListener autocast;
  HostCounterListener counters;
  ReplayPartListener replay_part;
  const std::unique_ptr<graphs::FrameworkListeners> cuda = make_cuda_listeners();  // null: libtorch has no CUDA
};

}  // namespace reprise::libtorch
