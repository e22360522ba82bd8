// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// Optimizers of libtorch whose `step` cannot be captured correctly.

namespace reprise::libtorch {

/// Allows the calling thread to take the `step` of torch::optim::Adam, AdamW and Adagrad in captures, until the end of
/// the scope; on any thread whose current stream takes part in one. These count their steps on the host, so that a
/// graph has the count of its capture: each replay corrects the averages of Adam and AdamW for that step, and decays
/// the learning rate of Adagrad as in that step. Without this they are refused. Those of optim.h count on the device.
///
/// Likewise the first `step` of torch::optim::SGD with momentum, and of RMSprop, which makes the optimizer's state: a
/// graph would make it anew at each replay. Without this it is refused; a `step` before the capture, as
/// GraphOptions::warmup does it, makes the state outside of the graph.
///
///     reprise::CUDAGraph graph = reprise::capture([&] {
///       loss = train();
///       const reprise::libtorch::AllowHostCounters allowed;  // lr_decay of Adagrad is 0: the count does not matter
///       optimizer.step();
///     });
class REPRISE_EXPORT AllowHostCounters {
 public:
  AllowHostCounters() noexcept;
  /// On the same thread. On another one it changes nothing, with a warning.
  ~AllowHostCounters();
  AllowHostCounters(const AllowHostCounters&) = delete;
  AllowHostCounters& operator=(const AllowHostCounters&) = delete;

 private:
  const void* thread_;
};

}  // namespace reprise::libtorch
