// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/executor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "support/room.h"
#include "text/format.h"

namespace reprise::backend::host {
namespace {

constexpr unsigned most_workers = 256;
// A worker is added when no task has started for so long, while tasks are ready and every worker is busy.
constexpr std::chrono::milliseconds blocked_after{2};

// Spins before sleeping: the submitting thread and the workers hold the mutex for about ten instructions at a time, and
// sleeping costs both sides a system call.
std::unique_lock<std::mutex> lock_shortly(std::mutex& mutex) {
  constexpr int tries = 200;
  for (int i = 0; i < tries; ++i) {
    if (mutex.try_lock()) return std::unique_lock(mutex, std::adopt_lock);
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return std::unique_lock(mutex);
}

unsigned usual_workers() {
  static const unsigned count = std::max(4U, std::thread::hardware_concurrency());
  return count;
}

}  // namespace

void TaskQueue::push_back(Task& task) noexcept {
  task.next_ = nullptr;
  (last_ != nullptr ? last_->next_ : first_) = &task;
  last_ = &task;
  ++size_;
}

Task* TaskQueue::take(std::size_t index) noexcept {
  Task* before = nullptr;
  Task* taken = first_;
  for (; index > 0; --index) before = std::exchange(taken, taken->next_);
  (before != nullptr ? before->next_ : first_) = taken->next_;
  if (last_ == taken) last_ = before;
  --size_;
  return taken;
}

Executor::~Executor() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ready_condition_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Executor::submit(const OperationRef& operation, std::span<const OperationRef> dependencies) {
  const auto lock = lock_shortly(mutex_);
  if (!runs_by_steps() && workers_.empty()) [[unlikely]]
    require_worker();
  for (const OperationRef& dependency : dependencies)
    if (!dependency.done()) support::make_room(dependency->successors_, dependencies.size());
  // Nothing fails from here on.
  operation->references_.fetch_add(1, std::memory_order_relaxed);
  for (const OperationRef& dependency : dependencies) {
    if (dependency.done()) continue;
    dependency->successors_.push_back(operation.get());
    ++operation->waiting_for_;
  }
  if (operation->waiting_for_ == 0) push_ready(*operation.get());
}

void Executor::post(Task& task) {
  const auto lock = lock_shortly(mutex_);
  push_ready(task);
}

bool Executor::run_after(const OperationRef& operation, Task& task) {
  const auto lock = lock_shortly(mutex_);
  if (operation.done()) return false;
  operation->waiting_tasks_.push_back(task);
  return true;
}

void Executor::open(const OperationRef& operation) {
  operation->references_.fetch_add(1, std::memory_order_relaxed);
}

Task* Executor::complete(Operation& operation) {
  Task* next = nullptr;
  {
    const auto lock = lock_shortly(mutex_);
    if (operation.timed_) operation.completed_at_ = std::chrono::steady_clock::now();
    operation.done_.store(true, std::memory_order_release);
    for (Task* successor : operation.successors_) {
      if (--successor->waiting_for_ > 0) continue;
      if (next == nullptr)
        next = successor;
      else
        push_ready(*successor);
    }
    operation.successors_.clear();
    while (!operation.waiting_tasks_.empty()) {
      Task* const waiting = operation.waiting_tasks_.pop_front();
      if (next == nullptr)
        next = waiting;
      else
        push_ready(*waiting);
    }
    if (operation.awaited_) done_condition_.notify_all();
  }
  if (operation.references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete &operation;
  return next;
}

void Executor::wait(const OperationRef& operation) {
  if (operation.done()) return;
  if (runs_by_steps()) [[unlikely]]
    return wait_by_steps(operation);
  std::unique_lock lock(mutex_);
  operation->awaited_ = true;
  while (!operation.done()) {
    relieve();
    done_condition_.wait_for(lock, blocked_after);
  }
}

bool Executor::try_wait(const OperationRef& operation) {
  if (!runs_by_steps()) {
    wait(operation);
    return true;
  }
  std::unique_lock lock(mutex_);
  while (!operation.done() && !stepping_ && !ready_.empty()) step(lock);
  return operation.done();
}

void Executor::wait_for_releases() {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = last_run_;
  ++wait_for_runs_;
  done_condition_.wait(lock, [&] {
    for (const Run* run = runs_; run != nullptr; run = run->next)
      if (run->number <= before) return false;
    return true;
  });
  --wait_for_runs_;
}

void Executor::begin(Run& run) noexcept {
  run = {++last_run_, runs_};
  runs_ = &run;
}

void Executor::end(const Run& run) noexcept {
  Run** at = &runs_;
  while (*at != &run) at = &(*at)->next;
  *at = run.next;
  if (wait_for_runs_ != 0) done_condition_.notify_all();
}

void Executor::polled() {
  auto lock = lock_shortly(mutex_);
  if (!runs_by_steps())
    relieve();
  else if (!stepping_ && !ready_.empty())  // never blocks: another thread's host function may wait for this one
    step(lock);
}

void Executor::push_ready(Task& task) noexcept {
  ready_.push_back(task);
  if (runs_by_steps()) [[unlikely]]
    return;
  if (idle_ > 0)
    ready_condition_.notify_one();
  else if (workers_.size() < usual_workers())
    try_start_worker();
}

void Executor::relieve() {
  if (ready_.empty() || idle_ > 0 || workers_.size() >= most_workers) return;
  const auto now = std::chrono::steady_clock::now();
  if (seen_started_tasks_ != started_tasks_) {
    seen_started_tasks_ = started_tasks_;
    seen_at_ = now;
  } else if (now - seen_at_ >= blocked_after) {
    try_start_worker();
    seen_at_ = now;
  }
}

void Executor::require_worker() try { start_worker(); } catch (const std::system_error& error) {
  throw NoWorker(
      text::format("the work was not submitted, because no thread could be started to run it ({}); raise the "
                   "limits on threads and memory (ulimit -u, ulimit -v, those of the container), or end other threads, "
                   "and submit it again",
                   error.what()));
}

// A failure is ignored: the other workers run the work.
void Executor::try_start_worker() noexcept {
  try {
    start_worker();
  } catch (const std::exception&) {
  }
}

void Executor::start_worker() {
  workers_.emplace_back([this] { work(); });
}

void Executor::work() {
  auto lock = lock_shortly(mutex_);
  for (;;) {
    while (ready_.empty()) {
      if (ending_) return;
      ++idle_;
      ready_condition_.wait(lock);
      --idle_;
    }
    Task* task = ready_.pop_front();
    ++started_tasks_;
    Run run;
    begin(run);
    lock.unlock();
    while (task != nullptr) task = task->run();
    lock = lock_shortly(mutex_);
    end(run);
  }
}

// By steps.

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
