// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <functional>

#include "reprise/stream.h"

namespace reprise::libtorch::test {

/// As a warm-up is run before a capture: not on the default stream. Waits for it.
inline void on_side_stream(const std::function<void()>& work) {
  const Stream side;
  side.wait(current_stream());
  {
    const StreamGuard guard(side);
    work();
  }
  current_stream().wait(side);
  torch::cuda::synchronize();
}

}  // namespace reprise::libtorch::test
