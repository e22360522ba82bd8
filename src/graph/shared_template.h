// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/check.h"
#include "reprise/device.h"

namespace reprise::graphs {

/// A template that outlives its graph, if another graph took over its values: user objects that other code gave to it,
/// such as a library for what its kernels use, cannot be listed, and live as long as the template.
class SharedTemplate {
 public:
  SharedTemplate(const Device& device, GraphHandle graph) : device_(device), graph_(graph) {}
  ~SharedTemplate() {
    const backend::RelaxedCaptureMode relaxed(device_.backend());
    backend::WarnOnError(device_.backend()).graph_destroy(graph_);
  }
  SharedTemplate(const SharedTemplate&) = delete;
  SharedTemplate& operator=(const SharedTemplate&) = delete;

 private:
  const Device device_;
  GraphHandle const graph_;
};

}  // namespace reprise::graphs
