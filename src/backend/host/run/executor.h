// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "backend/host/races/race_clock.h"
#include "support/immortal.h"

// The engine of the host device: operations that depend on each other, run by threads of its own.
//
// A stream is nothing but "the operation that the next one depends on"; an event is an operation that someone
// remembers; a graph launch is one operation whose nodes are tasks. Everything about order is said in dependencies.

namespace reprise::backend::host {

class Executor;

/// Something that a worker runs. Owned by whoever made it; must stay alive until it has run.
class Task {
 public:
  /// Runs, and returns a task that became ready by that and should run next on the same thread, or null.
  virtual Task* run() = 0;
  virtual ~Task() = default;

 private:
  friend class Executor;
  int waiting_for_ = 0;  // operations that must complete first; guarded by the executor's mutex
};

/// A task that others can depend on and wait for. Counted by references (OperationRef); the executor holds one from
/// submit() until it is complete.
class Operation : public Task {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Remember when it completes. Before submit().
  void set_timed() noexcept { timed_ = true; }
  bool timed() const noexcept { return timed_; }
  /// Only for a timed operation that is done.
  std::chrono::steady_clock::time_point completed_at() const noexcept { return completed_at_; }

  /// The race check's, guarded by the mutex of the runtime; null when races are not looked for.
  std::unique_ptr<Clock> clock;

 private:
  friend class Executor;
  friend class OperationRef;
  std::atomic<unsigned> references_{0};
  std::atomic<bool> done_{false};
  bool timed_ = false;
  bool awaited_ = false;           // a thread sleeps until it is done; guarded by the executor's mutex
  std::vector<Task*> successors_;  // guarded by the executor's mutex
  std::chrono::steady_clock::time_point completed_at_;
};

/// A counted reference to an operation; may be null.
class OperationRef {
 public:
  OperationRef() = default;
  explicit OperationRef(Operation* operation) noexcept : operation_(operation) { acquire(); }
  OperationRef(const OperationRef& other) noexcept : operation_(other.operation_) { acquire(); }
  OperationRef(OperationRef&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  OperationRef& operator=(OperationRef other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~OperationRef() {
    if (operation_ != nullptr && operation_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete operation_;
  }
  Operation* get() const noexcept { return operation_; }
  Operation* operator->() const noexcept { return operation_; }
  explicit operator bool() const noexcept { return operation_ != nullptr; }
  /// Is there nothing to wait for?
  bool done() const noexcept { return operation_ == nullptr || operation_->done(); }

 private:
  void acquire() noexcept {
    if (operation_ != nullptr) operation_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  Operation* operation_ = nullptr;
};

/// Picks what runs next when work runs by steps. Used by one thread at a time.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// A number below `ready`, which is at least 1: which of the tasks that are ready, in the order in which they became
  /// so. It must not call the executor.
  virtual std::size_t choose(std::size_t ready) = 0;
};

/// Runs tasks, in one of two ways. One for the process, alive until it ends.
///
/// *On threads* of its own, as many as the machine has cores and at least four; more when all of them are blocked in
/// host functions while others are ready.
///
/// *By steps*, each of which runs one task, on a thread that waits or polls: wait() makes steps until what it waits for
/// is done, polled() makes one. A chooser picks the task, and so decides on the order, among all that are legal. There
/// is one step at a time, whatever the number of threads: with one thread, all is decided by the chooser.
///
/// All functions may be called from any thread. Its mutex is the last one to be locked: nothing of anyone else's is
/// called under it, except for the chooser.
class Executor {
 public:
  static Executor& instance();

  /// Work runs by steps from now on, with this chooser instead of the one before. While nothing runs or is to run.
  void run_by_steps(std::unique_ptr<Chooser> chooser);
  bool runs_by_steps() const noexcept { return chooser_ != nullptr; }

  /// Runs the operation when all of `dependencies` are done (null references count as done).
  void submit(const OperationRef& operation, std::span<const OperationRef> dependencies);

  /// Runs a task when a worker is free.
  void post(Task& task);

  /// Runs `task` once `operation` is done; false, and nothing happens, if it is done already.
  bool run_after(const OperationRef& operation, Task& task);

  /// For an operation that completes by someone else's doing instead of by being run: from now on it counts as
  /// underway.
  void open(const OperationRef& operation);

  /// The operation is complete. Drops the executor's reference; returns a task that became ready, to be run next by
  /// the caller if it is a worker's task, else to be posted.
  Task* complete(Operation& operation);

  /// Blocks until it is done. By steps, it ends the process if nothing can complete the operation.
  void wait(const OperationRef& operation);

  /// Tells the executor that someone polls without success. It may add a worker when all of them are blocked; by steps,
  /// it makes one, unless another thread is making one or nothing is ready. Nothing of the runtime must be locked then.
  void polled();

 private:
  friend class support::Immortal<Executor>;
  Executor() = default;
  void push_ready(Task& task);  // with the mutex held
  void relieve();               // with the mutex held
  void start_worker();          // with the mutex held
  void work();
  // By steps: executor_steps.cpp.
  void wait_by_steps(const OperationRef& operation);
  void poll_by_steps();
  void step(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable ready_condition_;
  std::condition_variable done_condition_;
  std::deque<Task*> ready_;
  unsigned workers_ = 0;
  unsigned idle_ = 0;
  std::unique_ptr<Chooser> chooser_;  // null: on threads
  bool stepping_ = false;             // some thread makes a step
  std::uint64_t started_tasks_ = 0;   // for relieve(): has anything moved?
  std::uint64_t seen_started_tasks_ = 0;
  std::chrono::steady_clock::time_point seen_at_;
};

/// Is the calling thread executing an operation of a host device (or a user object's destructor)? Such a thread must
/// not call the device runtime.
bool executing() noexcept;

/// Marks the calling thread as executing until the end of the scope.
class ExecutingScope {
 public:
  ExecutingScope() noexcept;
  ~ExecutingScope();
  ExecutingScope(const ExecutingScope&) = delete;
  ExecutingScope& operator=(const ExecutingScope&) = delete;
};

}  // namespace reprise::backend::host
