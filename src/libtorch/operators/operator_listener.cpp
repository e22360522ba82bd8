// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/operator_listener.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "backend/rules/call_stack.h"
#include "libtorch/operators/operator_watch.h"
#include "text/format.h"

namespace reprise::libtorch {

/// The failed operators, and those within which the capture broke.
class OperatorNames final : public OperatorWatch {
 public:
  explicit OperatorNames(const Device& device) : OperatorWatch(device) {}

  void began(const RunningOperator& /*op*/, const at::RecordFunction& /*call*/, const Nodes* tails) override {
    if (tails == nullptr) return;
    const std::lock_guard lock(mutex_);
    failed_.clear();  // the caller has caught it
  }

  // The innermost one ends first.
  void ended(const RunningOperator& op, const End& end) override {
    const bool broke = end.capture.status == CaptureStatus::invalidated;
    if (!broke && !(end.failed && end.itself)) return;
    std::vector<std::string> names = op.names();
    const std::uint64_t thread = backend::thread_number();
    const std::lock_guard lock(mutex_);
    if (end.failed && end.itself) failed_ = names;
    const auto of_thread = [&](const Broken& each) { return each.thread == thread; };
    if (broke && std::ranges::none_of(broken_, of_thread)) broken_.push_back({thread, std::move(names)});
  }

  void adds_outside(const at::Tensor& leaf) override {
    const std::lock_guard lock(mutex_);
    if (leaves_outside_++ == 0)
      leaf_ = text::format("{} [{}]", c10::toString(leaf.scalar_type()), text::join(leaf.sizes(), ", "));
  }

  // Why the backward pass cannot be captured; empty if nothing is known.
  std::string cause() const {
    const std::lock_guard lock(mutex_);
    if (leaves_outside_ == 0) return "";
    const std::string text = text::format(
        "The gradient of a parameter ({}{}) is added on the default stream, which takes part in no capture (906). Its "
        "node of autograd (AccumulateGrad) stays on the stream of the forward pass that made it. A result of that "
        "pass, such as the loss of an eager step, keeps the node alive. Release these results before "
        "the capture, run eager steps on another stream (StreamGuard), or set GraphOptions::warmup, which makes nodes "
        "without hooks anew",
        leaf_, leaves_outside_ == 1 ? "" : text::format(", and {} more", leaves_outside_ - 1));
    return text;
  }

  // Operators of the thread that broke it, if known: others find it broken, too.
  std::vector<std::string> broke_in(const CaptureReport& report) const {
    const std::uint64_t thread = report.broken_by ? report.broken_by->thread : 0;
    const std::lock_guard lock(mutex_);
    for (const Broken& each : broken_)
      if (thread == 0 || each.thread == thread) return each.names;
    return {};
  }

  std::vector<std::string> take_failed() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failed_, {});
  }

 private:
  struct Broken {
    std::uint64_t thread;  // the system's number
    std::vector<std::string> names;
  };
  mutable std::mutex mutex_;
  std::vector<Broken> broken_;  // as they found it
  std::vector<std::string> failed_;
  std::size_t leaves_outside_ = 0;
  std::string leaf_;  // the first of them
};

namespace {

// The nested operators, outermost first, the innermost of which failed in the capture last abandoned on this thread.
// Empty if none failed.
thread_local std::vector<std::string> failed_operators;
// As OperatorNames::cause() of that capture.
thread_local std::string cause_of_failure;

}  // namespace

void OperatorListener::begin(captures::Capture& /*capture*/) {
  failed_operators.clear();
  cause_of_failure.clear();
  close();
}

void OperatorListener::started(captures::Capture& capture) {
  names_ = open_watch<OperatorNames>(capture);
  if (capture.options().enable_annotations) scopes_ = ForwardScopes::open(capture);
}

void OperatorListener::describe(const captures::Capture& /*capture*/, const backend::CaptureFindings& /*findings*/,
                                CaptureReport& report) {
  if (names_ == nullptr) return;
  report.operators = names_->broke_in(report);
  if (std::string cause = names_->cause(); !cause.empty()) report.notes.push_back(std::move(cause) + ".");
}

void OperatorListener::ended(captures::Capture& /*capture*/, graphs::CapturedGraph& /*graph*/) {
  close();
}

void OperatorListener::abandoned(captures::Capture& /*capture*/) noexcept {
  if (names_ != nullptr) {
    failed_operators = names_->take_failed();
    cause_of_failure = names_->cause();
  }
  close();
  scopes_.reset();
}

void OperatorListener::close() noexcept {
  names_.reset();
  if (scopes_ != nullptr) scopes_->end();
}

void add_failed_operators(c10::Error& error) {
  if (std::string cause = std::exchange(cause_of_failure, {}); !cause.empty()) error.add_context(std::move(cause));
  const std::vector<std::string> names = std::exchange(failed_operators, {});
  if (names.empty()) return;
  error.add_context(text::format("within the operator {} of a capture{}", names.back(),
                                 names.size() == 1 ? "" : text::format(" ({})", text::join(names, ", "))));
}

}  // namespace reprise::libtorch
