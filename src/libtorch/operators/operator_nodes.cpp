// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/operator_nodes.h"

#include <utility>

namespace reprise::libtorch {

void OperatorNodes::started(captures::Capture& capture) {
  auto watch = std::make_shared<OperatorInputs>(capture.device());
  watch->open(capture);
  watch_ = std::move(watch);
}

void OperatorNodes::ended(GraphHandle template_graph) {
  close();
  watch_->look_at(template_graph);
}

}  // namespace reprise::libtorch
