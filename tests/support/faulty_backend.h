// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "backend/host/failure_plan.h"

namespace reprise::backend::test {

/// A device that does what another one does, except that chosen calls fail, and that it counts the calls. It works over
/// any device; the failures that users can inject (reprise/host_device.h) are for simulated ones.
///
/// To the library, a device of its own, with its own caching allocator and current streams. Must live until the process
/// ends, as devices do. All functions may be called from any thread.
class FaultyBackend : public Backend {
 public:
  explicit FaultyBackend(Backend& inner) : FaultyBackend(inner, inner.type()) {}
  /// A device that says it is of another type.
  FaultyBackend(Backend& inner, DeviceType type) : inner_(inner), type_(type), shared_(std::make_shared<Shared>()) {}
  /// A device that counts and fails together with another one.
  FaultyBackend(Backend& inner, const FaultyBackend& together)
      : inner_(inner), type_(inner.type()), shared_(together.shared_) {}

  /// The next call of a kind, after `passed` more of it, is not made and returns `code`.
  void fail(Call call, ErrorCode code, int passed = 0) {
    shared_->plan.add({call, code, static_cast<std::uint64_t>(passed) + 1, nullptr});
  }
  /// The next call of any kind, after `passed` more, is not made and returns `code`.
  void fail_any(ErrorCode code, int passed) {
    shared_->plan.add({std::nullopt, code, static_cast<std::uint64_t>(passed) + 1, nullptr});
  }
  /// Faults leave no error detail.
  void say_nothing() { shared_->say_nothing = true; }
  /// True if every injected fault has happened.
  bool all_happened() const { return !shared_->plan.any(); }
  /// The kind of the call that failed last by a fault; nothing if none has since heal().
  std::optional<Call> failed() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->failed;
  }
  /// Makes later calls succeed, and removes the hook of before_any().
  void heal() {
    shared_->plan.clear();
    const std::lock_guard lock(shared_->mutex);
    shared_->failed.reset();
    shared_->before = nullptr;
  }

  /// Calls `hook` once, after the next call of a kind was made and before it returns.
  void after(Call call, std::function<void()> hook) {
    const std::lock_guard lock(shared_->mutex);
    shared_->hooks[call] = std::move(hook);
  }
  /// Calls `hook` once, right before the call after `passed` more of any kind.
  void before_any(int passed, std::function<void()> hook) {
    const std::lock_guard lock(shared_->mutex);
    shared_->before = std::move(hook);
    shared_->passed = passed;
  }

  /// How many calls of a kind were made since forget_calls().
  int calls(Call call) const { return shared_->counts[static_cast<std::size_t>(call)]; }
  /// How many calls of any kind were made since forget_calls().
  int calls() const {
    int sum = 0;
    for (const auto& count : shared_->counts) sum += count;
    return sum;
  }
  void forget_calls() {
    for (auto& count : shared_->counts) count = 0;
  }

  DeviceType type() const noexcept override { return type_; }
  int index() const noexcept override { return inner_.index(); }
  std::string device_name() const override { return inner_.device_name(); }
  Monitor& monitor() noexcept override { return inner_.monitor(); }
  std::string logged_error() const override { return inner_.logged_error(); }

#define REPRISE_CALL(name, cuda, parameters, arguments)            \
  Result name parameters override {                                \
    return run(Call::name, [&] { return inner_.name arguments; }); \
  }
#include "backend/calls.def"

 private:
  struct Shared {
    FailurePlan plan;
    mutable std::mutex mutex;
    std::optional<Call> failed;
    std::map<Call, std::function<void()>> hooks;
    std::function<void()> before;
    int passed = 0;
    std::atomic<bool> say_nothing{false};
    std::array<std::atomic<int>, call_count> counts{};
  };

  template <class F>
  Result run(Call call, F&& f) {
    ++shared_->counts[static_cast<std::size_t>(call)];
    if (const auto hook = take_before()) hook();
    if (shared_->plan.any()) {
      if (const auto happened = shared_->plan.next(call, *this)) {
        const std::lock_guard lock(shared_->mutex);
        shared_->failed = call;
        return {happened->code, shared_->say_nothing ? "" : happened->detail};
      }
    }
    Result result = f();
    if (const auto hook = take_after(call)) hook();
    return result;
  }

  std::function<void()> take_before() {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->before || shared_->passed-- > 0) return {};
    return std::exchange(shared_->before, nullptr);
  }
  std::function<void()> take_after(Call call) {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->hooks.find(call);
    if (found == shared_->hooks.end()) return {};
    const std::function<void()> hook = std::move(found->second);
    shared_->hooks.erase(found);
    return hook;
  }

  Backend& inner_;
  const DeviceType type_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace reprise::backend::test
