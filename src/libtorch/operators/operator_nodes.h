// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "inspect/frozen/operator_source.h"
#include "libtorch/operators/operator_intervals.h"
#include "libtorch/operators/operator_watch.h"

namespace reprise::libtorch {

/// The names of the operators that made the nodes of a graph.
class OperatorNodes final : public inspect::OperatorSource {
 public:
  OperatorNodes() = default;
  ~OperatorNodes() override { close(); }
  OperatorNodes(const OperatorNodes&) = delete;
  OperatorNodes& operator=(const OperatorNodes&) = delete;

  void started(captures::Capture& capture) override;
  void ended(GraphHandle template_graph) override;
  std::string operator_of(GraphNodeHandle node) const override;

 private:
  class Watch final : public OperatorWatch {
   public:
    explicit Watch(const Device& device) : OperatorWatch(device, /*wants_arguments=*/false) {}
    void began(const RunningOperator& op, const at::RecordFunction& /*call*/, const Nodes* tails) override {
      const std::lock_guard lock(mutex_);
      intervals_.began(op, tails);
    }
    void ended(const RunningOperator& op, const End& end) override {
      const std::lock_guard lock(mutex_);
      if (op.within == nullptr) intervals_.ended(op, end);
    }
    std::unordered_map<GraphNodeHandle, std::string> names(GraphHandle template_graph) const {
      const std::lock_guard lock(mutex_);
      return intervals_.names(device().backend(), template_graph);
    }

   private:
    mutable std::mutex mutex_;
    OperatorIntervals intervals_;
  };

  void close() noexcept {
    if (watch_ != nullptr) watch_->close();
  }

  std::shared_ptr<Watch> watch_;
  std::unordered_map<GraphNodeHandle, std::string> names_;
};

}  // namespace reprise::libtorch
