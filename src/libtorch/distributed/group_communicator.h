// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "graph/listeners/collectives_listener.h"
#include "reprise/device.h"

namespace reprise::libtorch {

/// A process group as a communicator of graphs, which keep it. One for each group. Thread-safe.
class GroupCommunicator final : public graphs::Communicator {
 public:
  static std::shared_ptr<GroupCommunicator> of(const c10::intrusive_ptr<c10d::Backend>& group, Device device);

  GroupCommunicator(c10::intrusive_ptr<c10d::Backend> group, Device device)
      : group_(std::move(group)), device_(device) {}
  ~GroupCommunicator() override;
  GroupCommunicator(const GroupCommunicator&) = delete;
  GroupCommunicator& operator=(const GroupCommunicator&) = delete;

  c10d::Backend& group() const noexcept { return *group_; }

  std::string describe() const override;
  /// On a thread of its own: collectives end at once, but NCCL then waits for the end of all graphs with collectives of
  /// the communicator (`commDestroySync`, NCCL 2.26 and later). These graphs hold this object, whose end waits for the
  /// thread.
  void abort() noexcept override;
  bool aborted() const noexcept override { return aborted_.load(std::memory_order_relaxed); }

 private:
  void abort_group() const noexcept;

  const c10::intrusive_ptr<c10d::Backend> group_;
  const Device device_;
  std::atomic<bool> aborted_{false};
  std::thread aborting_;  // started by the first abort()
};

}  // namespace reprise::libtorch
