// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/operator_watch.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "captures/registry.h"
#include "libtorch/operators/autocast_cache.h"
#include "libtorch/operators/counted_callback.h"
#include "libtorch/operators/leaf_streams.h"
#include "reprise/error.h"
#include "support/immortal.h"

namespace reprise::libtorch {

namespace {

using Watches = std::vector<std::shared_ptr<OperatorWatch>>;

/// The context of a call in at::RecordFunction, from its beginning to its end on the same thread.
struct WatchedCall final : at::ObserverContext {
  explicit WatchedCall(const char* name, WatchedCall* outer)
      : op{name, outer != nullptr ? &outer->op : nullptr, outer != nullptr ? outer->op.stream : current_stream()},
        within(outer) {}

  RunningOperator op;
  WatchedCall* within;
  const Watches* watches = nullptr;  // of the outermost one
  Watches own_watches = {};
  std::optional<NoAutocastCache> no_cache = {};  // in a capture
  int exceptions = std::uncaught_exceptions();
  bool inner_failed = false;  // a call within this one
};

thread_local WatchedCall* innermost = nullptr;

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& call);
void operator_ends(const at::RecordFunction& call, at::ObserverContext* context);

// The open watches of one capture.
struct WatchesOfCapture {
  std::mutex mutex;
  Watches open;
};

constinit captures::Slot<WatchesOfCapture> watches_of;

// On while any watch is open. Never destroyed: threads may run operators until the process ends.
CountedCallback& operator_callback() {
  static support::Immortal<CountedCallback> instance(at::RecordFunctionCallback(&operator_begins, &operator_ends)
                                                         .needsInputs(true)
                                                         .scopes({at::RecordScope::FUNCTION}));
  return *instance;
}

// Finds the watches of the capture that the calling thread's current stream takes part in.
void find_watches(WatchedCall& call, OperatorWatch::Nodes& tails) {
  call.watches = &call.own_watches;
  std::optional<captures::Found> found;  // of the stream
  captures::for_each([&](const captures::Capture& capture) {
    const auto watches = capture.get(watches_of);
    if (watches == nullptr) return;
    StreamRef& stream = call.op.stream;
    if (stream.device().type() != capture.device().type()) {
      stream = current_stream(capture.device());
      found.reset();
    }
    if (!found) found = captures::find(stream);
    if (found->part != captures::Part::own || found->capture.get() != &capture) return;
    tails.assign(found->info.dependencies.begin(), found->info.dependencies.end());
    const std::lock_guard lock(watches->mutex);
    call.own_watches = watches->open;
  });
}

// The engine of autograd records around each node that it runs, before it makes the stream of that current.
bool is_operator(const at::RecordFunction& function) {
  return !std::string_view(function.name()).starts_with("autograd::engine::");
}

void find_leaves_outside() {
  for_each_leaf_elsewhere([](const LeafElsewhere& found) {
    if (!found.to.is_default()) return;
    const captures::Found capture = captures::find(found.from);
    const auto watches = capture.part == captures::Part::own ? capture.capture->get(watches_of) : nullptr;
    if (watches == nullptr) return;
    const std::lock_guard lock(watches->mutex);
    for (const auto& watch : watches->open) watch->adds_outside(found.leaf);
  });
}

std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function) {
  if (!is_operator(function)) {
    find_leaves_outside();
    return nullptr;
  }
  auto call = std::make_unique<WatchedCall>(function.name(), innermost);
  OperatorWatch::Nodes tails;
  if (call->within != nullptr)
    call->watches = call->within->watches;
  else
    find_watches(*call, tails);
  if (!call->watches->empty()) call->no_cache.emplace();
  for (const auto& watch : *call->watches) watch->began(call->op, function, call->within == nullptr ? &tails : nullptr);
  innermost = call.get();
  return call;
}

void operator_ends(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  auto* const call = static_cast<WatchedCall*>(context);
  if (call == nullptr) return;
  innermost = call->within;
  if (call->watches->empty()) return;
  captures::Found found;
  try {
    found = captures::find(call->op.stream);
  } catch (const BackendError&) {  // the end of the capture fails as well
  }
  const OperatorWatch::End end{std::uncaught_exceptions() > call->exceptions, !call->inner_failed, found.info};
  if (end.failed && call->within != nullptr) call->within->inner_failed = true;
  for (const auto& watch : *call->watches) watch->ended(call->op, end);
}

}  // namespace

std::vector<std::string> RunningOperator::names() const {
  std::vector<std::string> all;
  for (const RunningOperator* op = this; op != nullptr; op = op->within) all.emplace_back(op->name);
  std::ranges::reverse(all);
  return all;
}

void OperatorWatch::open(captures::Capture& capture) {
  {
    const auto watches = capture.get_or_attach(watches_of);
    const std::lock_guard lock(watches->mutex);
    watches->open.push_back(shared_from_this());
  }
  capture_ = &capture;
  operator_callback().add();
}

void OperatorWatch::close() noexcept {
  captures::Capture* const capture = std::exchange(capture_, nullptr);
  if (capture == nullptr) return;
  if (const auto watches = capture->get(watches_of)) {
    const std::lock_guard lock(watches->mutex);
    std::erase_if(watches->open, [&](const auto& each) { return each.get() == this; });
  }
  try {
    operator_callback().remove();
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

}  // namespace reprise::libtorch
