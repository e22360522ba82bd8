// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "backend/host/races/race_clock.h"

// The engine of the host device: operations that depend on each other, run by threads of its own.
//
// A stream is its last operation, on which the next one depends; an event is a reference to an operation; a graph
// launch is one operation whose nodes are tasks. All order is expressed by dependencies.

namespace reprise::backend::host {

class Executor;

/// Something that a worker runs. Owned by its creator; must stay alive until it has run.
class Task {
 public:
  /// Runs, and returns a task that thereby became ready, to run next on the same thread, or null.
  virtual Task* run() = 0;
  virtual ~Task() = default;

 private:
  friend class Executor;
  friend class TaskQueue;
  // Guarded by the executor's mutex.
  int waiting_for_ = 0;   // number of incomplete dependencies
  Task* next_ = nullptr;  // in the one queue that it is in, if any
};

/// Tasks in order. Needs no memory, so adding one cannot fail.
class TaskQueue {
 public:
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void push_back(Task& task) noexcept;
  Task* pop_front() noexcept { return take(0); }  ///< must not be empty
  Task* take(std::size_t index) noexcept;         ///< removes and returns the one at `index`

 private:
  Task* first_ = nullptr;
  Task* last_ = nullptr;
  std::size_t size_ = 0;
};

/// Work was refused, and not submitted, because the system let no thread start that would run it.
class NoWorker : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A task that others can depend on and wait for. Reference-counted (OperationRef); the executor holds a reference from
/// submit() until completion.
class Operation : public Task {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// Records the time of completion. Before submit().
  void set_timed() noexcept { timed_ = true; }
  /// Only for a timed operation that is done.
  std::chrono::steady_clock::time_point completed_at() const noexcept { return completed_at_; }

  /// For the race check, guarded by the mutex of the runtime; null without it.
  std::unique_ptr<Clock> clock;

 private:
  friend class Executor;
  friend class OperationRef;
  std::atomic<unsigned> references_{0};
  std::atomic<bool> done_{false};
  bool timed_ = false;
  bool awaited_ = false;           // a thread sleeps until completion; guarded by the executor's mutex
  std::vector<Task*> successors_;  // operations that depend on it; guarded by the executor's mutex
  TaskQueue waiting_tasks_;        // of run_after(); likewise
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
  /// True if null or complete.
  bool done() const noexcept { return operation_ == nullptr || operation_->done(); }

 private:
  void acquire() noexcept {
    if (operation_ != nullptr) operation_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  Operation* operation_ = nullptr;
};

/// Picks the next task when work runs by steps. Used by one thread at a time.
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Returns a number below `ready`, which is at least 1: an index of the ready tasks, in the order in which they
  /// became ready. Must not call the executor.
  virtual std::size_t choose(std::size_t ready) = 0;
};

/// Runs tasks, in one of two ways. One for each runtime.
///
/// *On worker threads*, as many as the machine has cores and at least four; more when all of them are blocked in host
/// functions while tasks are ready.
///
/// *By steps*, each of which runs one task, on a thread that waits or polls: wait() makes steps until its operation is
/// complete, polled() makes one. A chooser picks the task among the ready ones. One step at a time, on any number of
/// threads: in a program with one thread the chooser decides the whole order.
///
/// Thread-safe. Its mutex is the last one to be locked: no other code is called under it, except the chooser.
class Executor {
 public:
  Executor() = default;
  /// Ends the worker threads. Only when no task is pending, and not on one of these threads.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Switches to steps, with this chooser. Only while no task is running or pending.
  void run_by_steps(std::unique_ptr<Chooser> chooser);
  bool runs_by_steps() const noexcept { return chooser_ != nullptr; }

  /// Runs the operation when all of `dependencies` are complete (null references count as complete).
  /// \throws NoWorker, std::bad_alloc: nothing has changed.
  void submit(const OperationRef& operation, std::span<const OperationRef> dependencies);

  /// Runs a task when a worker is free.
  void post(Task& task);

  /// Runs `task` once `operation` is complete; false, without effect, if it is complete already.
  bool run_after(const OperationRef& operation, Task& task);

  /// Marks an operation as underway that is completed by complete() instead of being run.
  void open(const OperationRef& operation);

  /// Completes the operation and releases the executor's reference; returns a task that became ready, to be run next by
  /// the caller if it is a worker's task, else to be posted.
  Task* complete(Operation& operation);

  /// Blocks until the operation is complete. By steps: ends the process if nothing can complete it.
  void wait(const OperationRef& operation);

  /// Waits as wait() does, but gives up where that could wait for the calling thread itself: by steps, when nothing is
  /// ready, or another thread makes a step, whose host function may wait for this one.
  /// \return true if the operation is complete.
  bool try_wait(const OperationRef& operation);

  /// Waits until no thread is running a task that it has begun before the call: those of operations that are complete
  /// release what they hold. Not on a thread that runs one.
  void wait_for_releases();

  /// Notifies an unsuccessful poll. May add a worker when all of them are blocked; by steps: makes one, unless another
  /// thread is making one or no task is ready. The caller must hold no lock of the runtime.
  void polled();

 private:
  /// A worker, or a step, that runs tasks one after another.
  struct Run {
    std::uint64_t number = 0;
    Run* next = nullptr;
  };
  void begin(Run& run) noexcept;         // with the mutex held
  void end(const Run& run) noexcept;     // with the mutex held
  void push_ready(Task& task) noexcept;  // with the mutex held
  void relieve();                        // with the mutex held
  void try_start_worker() noexcept;      // with the mutex held
  void start_worker();                   // with the mutex held; throws std::system_error, std::bad_alloc
  void require_worker();                 // with the mutex held; throws NoWorker, std::bad_alloc
  void work();
  // By steps.
  void wait_by_steps(const OperationRef& operation);
  void step(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable ready_condition_;
  std::condition_variable done_condition_;
  TaskQueue ready_;
  std::vector<std::thread> workers_;
  unsigned idle_ = 0;
  bool ending_ = false;
  std::unique_ptr<Chooser> chooser_;  // null: on threads
  bool stepping_ = false;             // a thread makes a step
  Run* runs_ = nullptr;               // underway
  std::uint64_t last_run_ = 0;        // number of the last one
  unsigned wait_for_runs_ = 0;        // threads in wait_for_releases()
  std::uint64_t started_tasks_ = 0;   // for relieve(): changes with every progress
  std::uint64_t seen_started_tasks_ = 0;
  std::chrono::steady_clock::time_point seen_at_;
};

inline constinit thread_local int executing_depth = 0;  ///< scopes of the calling thread

/// True if the calling thread is executing an operation of a host device (or a user object's destructor). Such a thread
/// must not call the device runtime.
inline bool executing() noexcept {
  return executing_depth > 0;
}

/// Marks the calling thread as executing until the end of the scope.
class ExecutingScope {
 public:
  ExecutingScope() noexcept { ++executing_depth; }
  ~ExecutingScope() { --executing_depth; }
  ExecutingScope(const ExecutingScope&) = delete;
  ExecutingScope& operator=(const ExecutingScope&) = delete;
};

}  // namespace reprise::backend::host
