// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/operator_watch.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

#include "reprise/error.h"

namespace reprise::libtorch {

using backend::Backend;
using backend::CaptureInfo;

namespace {

using Watches = std::vector<std::shared_ptr<OperatorWatch>>;

/// A call as at::RecordFunction carries it from its beginning to its end, which is on the same thread.
struct Underway final : at::ObserverContext {
  explicit Underway(const char* name, Underway* outer)
      : op{name, outer != nullptr ? &outer->op : nullptr, outer != nullptr ? outer->op.stream : current_stream()},
        within(outer) {}

  RunningOperator op;
  Underway* within;
  const Watches* watches = nullptr;  // of the outermost one
  Watches own_watches = {};
  int exceptions = std::uncaught_exceptions();
  bool inner_failed = false;  // a call within this one
};

thread_local Underway* innermost = nullptr;

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& call);
void operator_ends(const at::RecordFunction& call, at::ObserverContext* context);

// All open watches, and the two callbacks: one of them is on while there is any. libtorch can read the arguments of
// operators only for callbacks that said so before.
class Watching {
 public:
  void open(std::shared_ptr<OperatorWatch> watch) {
    const std::lock_guard lock(mutex_);
    if (!registered_) {
      with_arguments_ = add(true);
      without_ = add(false);
      registered_ = true;
    }
    all_.push_back(std::move(watch));
    turn_callbacks();
  }
  void close(const OperatorWatch* watch) {
    const std::lock_guard lock(mutex_);
    if (std::erase_if(all_, [&](const auto& each) { return each.get() == watch; }) != 0) turn_callbacks();
  }
  Watches all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  static at::CallbackHandle add(bool with_arguments) {
    const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(&operator_begins, &operator_ends)
                                                  .needsInputs(with_arguments)
                                                  .scopes({at::RecordScope::FUNCTION}));
    at::disableCallback(handle);
    return handle;
  }
  void turn_callbacks() {
    const bool arguments = std::ranges::any_of(all_, [](const auto& each) { return each->wants_arguments(); });
    turn(with_arguments_, arguments);
    turn(without_, !arguments && !all_.empty());
  }
  static void turn(at::CallbackHandle callback, bool on) {
    if (on)
      at::reenableCallback(callback);
    else
      at::disableCallback(callback);
  }

  mutable std::mutex mutex_;
  Watches all_;
  bool registered_ = false;
  at::CallbackHandle with_arguments_ = at::INVALID_CALLBACK_HANDLE, without_ = at::INVALID_CALLBACK_HANDLE;
};

// Never destroyed: threads may run operators until the process ends.
Watching& watching() {
  static auto* const instance = new Watching;
  return *instance;
}

// Those whose capture the calling thread's current stream takes part in.
void find_watches(Underway& call, OperatorWatch::Nodes& tails) {
  for (auto& watch : watching().all()) {
    const Device& device = watch->device();
    if (call.op.stream.device().type() != device.type()) call.op.stream = current_stream(device);
    const StreamRef& stream = call.op.stream;
    if (stream.is_default()) continue;
    Backend& backend = stream.device().backend();
    CaptureInfo info;
    if (backend.stream_capture_info(stream.native(), &info) != Result::success) continue;
    if (info.status != CaptureStatus::active || info.id != watch->capture_id()) continue;
    tails.assign(info.dependencies.begin(), info.dependencies.end());
    call.own_watches.push_back(std::move(watch));
  }
  call.watches = &call.own_watches;
}

// The engine of autograd records around each node that it runs, before it makes the stream of that current.
bool is_operator(const at::RecordFunction& function) {
  return !std::string_view(function.name()).starts_with("autograd::engine::");
}

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  if (!is_operator(function)) return nullptr;
  auto call = std::make_unique<Underway>(function.name(), innermost);
  OperatorWatch::Nodes tails;
  if (call->within != nullptr)
    call->watches = call->within->watches;
  else
    find_watches(*call, tails);
  for (const auto& watch : *call->watches) watch->began(call->op, function, call->within == nullptr ? &tails : nullptr);
  innermost = call.get();
  return call;
}

void operator_ends(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  auto* const call = static_cast<Underway*>(context);
  if (call == nullptr) return;
  innermost = call->within;
  if (call->watches->empty()) return;
  OperatorWatch::End end{CaptureStatus::none, std::uncaught_exceptions() > call->exceptions, !call->inner_failed};
  if (end.failed && call->within != nullptr) call->within->inner_failed = true;
  Backend& backend = call->op.stream.device().backend();
  backend.stream_is_capturing(call->op.stream.native(), &end.status);
  for (const auto& watch : *call->watches) watch->ended(call->op, end);
}

}  // namespace

std::vector<std::string> RunningOperator::names() const {
  std::vector<std::string> all;
  for (const RunningOperator* op = this; op != nullptr; op = op->within) all.emplace_back(op->name);
  std::ranges::reverse(all);
  return all;
}

void OperatorWatch::open() {
  watching().open(shared_from_this());
}

void OperatorWatch::close() noexcept {
  try {
    watching().close(this);
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

}  // namespace reprise::libtorch
