// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/operator_nodes.h"

#include <utility>

namespace reprise::libtorch {

void OperatorNodes::started(captures::Capture& capture) {
  auto watch = std::make_shared<Watch>(capture.device());
  watch->open(capture);
  watch_ = std::move(watch);
}

void OperatorNodes::ended(GraphHandle template_graph) {
  close();
  names_ = watch_->names(template_graph);
}

std::string OperatorNodes::operator_of(GraphNodeHandle node) const {
  const auto found = names_.find(node);
  return found != names_.end() ? found->second : std::string();
}

}  // namespace reprise::libtorch
