// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "backend/host/run/executor.h"

// Work that runs by steps, on the threads that wait for it.

namespace reprise::backend::host {

void Executor::run_by_steps(std::unique_ptr<Chooser> chooser) {
  const std::lock_guard lock(mutex_);
  chooser_ = std::move(chooser);
}

void Executor::wait_by_steps(const OperationRef& operation) {
  std::unique_lock lock(mutex_);
  while (!operation.done()) {
    if (stepping_) {
      done_condition_.wait(lock);
    } else if (!ready_.empty()) {
      step(lock);
    } else {
      std::fputs(
          "reprise: fatal: a wait for work of a simulated device will never end: nothing is ready to run, nothing is "
          "running, and so nothing can complete what it waits for\n",
          stderr);
      std::abort();
    }
  }
}

bool Executor::try_wait_by_steps(const OperationRef& operation) {
  std::unique_lock lock(mutex_);
  while (!operation.done() && !stepping_ && !ready_.empty()) step(lock);
  return operation.done();
}

void Executor::poll_by_steps() {
  std::unique_lock lock(mutex_);
  // A poll never blocks, as on a GPU: the step of another thread may be a host function that waits for this one.
  if (!stepping_ && !ready_.empty()) step(lock);
}

void Executor::step(std::unique_lock<std::mutex>& lock) {
  Task* const task = ready_.take(chooser_->choose(ready_.size()));
  stepping_ = true;
  Run run;
  begin(run);
  lock.unlock();
  Task* const next = task->run();
  lock.lock();
  end(run);
  stepping_ = false;
  if (next != nullptr) ready_.push_back(*next);
  done_condition_.notify_all();
}

}  // namespace reprise::backend::host
