// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "backend/host/run/executor.h"

// The engine of the host device.

namespace reprise::backend::host {
namespace {

class Plain : public Operation {
 public:
  explicit Plain(Executor& executor) : executor_(executor) {}
  Task* run() override { return executor_.complete(*this); }

 private:
  Executor& executor_;
};

/// Releases what it holds once it is allowed to.
class SlowToRelease final : public Plain {
 public:
  SlowToRelease(Executor& executor, std::atomic<bool>& allowed, std::atomic<bool>& released)
      : Plain(executor), allowed_(allowed), released_(released) {}
  ~SlowToRelease() override {
    while (!allowed_) std::this_thread::yield();
    released_ = true;
  }

 private:
  std::atomic<bool>& allowed_;
  std::atomic<bool>& released_;
};

TEST(HostExecutor, WaitsForWhatCompletedOperationsRelease) {
  std::atomic<bool> allowed = false, released = false, waiting = false;
  Executor executor;
  OperationRef first(new SlowToRelease(executor, allowed, released));
  // The thread that has run `first` runs one of its successors next; another thread completes the other one.
  const std::array<OperationRef, 2> successors = {OperationRef(new Plain(executor)), OperationRef(new Plain(executor))};
  OperationRef gate(new Plain(executor));
  executor.open(gate);
  executor.submit(first, {&gate, 1});
  for (const OperationRef& each : successors) executor.submit(each, {&first, 1});
  first = {};
  executor.post(*executor.complete(*gate.get()));
  executor.wait(successors[1]);
  std::thread allows([&] {
    while (!waiting) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    allowed = true;
  });
  waiting = true;
  executor.wait_for_releases();
  EXPECT_TRUE(released);
  allows.join();
  executor.wait(successors[0]);
}

}  // namespace
}  // namespace reprise::backend::host
