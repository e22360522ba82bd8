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
  OperatorNodes() = default;
  ~OperatorNodes() override { close(); }
  OperatorNodes(const OperatorNodes&) = delete;
  OperatorNodes& operator=(const OperatorNodes&) = delete;

  void started(captures::Capture& capture) override;
  void ended(GraphHandle template_graph) override;
  std::string operator_of(GraphNodeHandle node) const override { return watch_->operator_of(node); }
  bool was_given(GraphNodeHandle node, std::uintptr_t address) const override {
    return watch_->made_by_operator(node) && watch_->may_use(node, address);
  }

 private:
  void close() noexcept {
    if (watch_ != nullptr) watch_->close();
  }

  std::shared_ptr<OperatorInputs> watch_;
};

}  // namespace reprise::libtorch
