// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "graph/capture_listener.h"

namespace reprise::graphs {

/// Objects of the user's that live as long as anything of the graph: CUDAGraph::retain().
class RetainListener final : public CaptureListener {
 public:
  /// Needs a capture that is underway, or its graph. Called by one thread at a time.
  void retain(std::shared_ptr<void> object) { objects_.lock()->push_back(std::move(object)); }

  void begin(const CaptureContext& /*context*/) override { objects_ = held_ = std::make_shared<Objects>(); }
  void abandoned() noexcept override { held_.reset(); }
  std::shared_ptr<void> take_resource() override { return std::move(held_); }
  void reset() noexcept override { held_.reset(); }

 private:
  /// Destroyed the last one first.
  struct Objects : std::vector<std::shared_ptr<void>> {
    Objects() = default;
    Objects(const Objects&) = delete;
    Objects& operator=(const Objects&) = delete;
    ~Objects() {
      while (!empty()) pop_back();
    }
  };

  std::shared_ptr<Objects> held_;   // until the graph holds them
  std::weak_ptr<Objects> objects_;  // the same, for what is added later
};

}  // namespace reprise::graphs
