// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "graph/listeners/collectives_listener.h"

namespace reprise::libtorch {

/// A process group as a communicator of graphs, which keep it. One for each group. Thread-safe.
class GroupCommunicator final : public graphs::Communicator {
 public:
  static std::shared_ptr<GroupCommunicator> of(const c10::intrusive_ptr<c10d::Backend>& group);

  explicit GroupCommunicator(c10::intrusive_ptr<c10d::Backend> group) : group_(std::move(group)) {}

  c10d::Backend& group() const noexcept { return *group_; }

  std::string describe() const override;
  void abort() noexcept override;
  bool aborted() const noexcept override { return aborted_.load(std::memory_order_relaxed); }

 private:
  const c10::intrusive_ptr<c10d::Backend> group_;
  std::atomic<bool> aborted_{false};
};

}  // namespace reprise::libtorch
