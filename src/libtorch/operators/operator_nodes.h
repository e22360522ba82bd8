// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "inspect/frozen/operator_source.h"
#include "libtorch/operators/operator_inputs.h"

namespace reprise::libtorch {

/// The operators that made the nodes of a graph, and the memory that they were given.
class OperatorNodes final : public inspect::OperatorSource {
 public:
  void started(captures::Capture& capture) override { watch_ = open_watch<OperatorInputs>(capture); }
  void ended(GraphHandle template_graph) override { watch_->look_at(template_graph); }
  std::string operator_of(GraphNodeHandle node) const override { return watch_->operator_of(node); }
  bool was_given(GraphNodeHandle node, std::uintptr_t address) const override {
    return watch_->was_given(node, address);
  }

 private:
  std::shared_ptr<OperatorInputs> watch_;
};

}  // namespace reprise::libtorch
