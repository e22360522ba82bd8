// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/forward_scopes.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "libtorch/operators/counted_callback.h"
#include "reprise/error.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

constexpr const char* no_memory =
    "There was no memory to note a scope for the backward pass, whose nodes may have no annotation, or a wrong one.";

constinit captures::Slot<ForwardScopes> scopes_of;

// Scopes of graphs and of captures underway. The registry has only the latter, and the backward pass of what one
// capture made may be in a later one.
struct All {
  std::mutex mutex;  // guards the list, and what is in the objects; comes after that of a capture's annotations
  std::vector<std::weak_ptr<ForwardScopes>> scopes;
};

// Never destroyed: a graph in a static object may end late.
All& all() {
  static support::Immortal<All> instance;
  return *instance;
}

/// The scope of one node of autograd in a backward pass.
struct BackwardScope final : at::ObserverContext {
  std::optional<annotate> scope;
};

std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& node) {
  auto context = std::make_unique<BackwardScope>();
  Annotation annotation = ForwardScopes::of(node.forwardThreadId(), static_cast<std::uint64_t>(node.seqNr()));
  if (annotation.empty()) return context;
  annotation.insert_or_assign("pass", "backward");
  try {
    context->scope.emplace(annotation);
  } catch (const Error& error) {  // also reported by the end of the capture
    warn(error.what());
  }
  return context;
}

void ends(const at::RecordFunction& /*node*/, at::ObserverContext* context) {
  if (auto* const scope = static_cast<BackwardScope*>(context)) scope->scope.reset();
}

CountedCallback& backward_callback() {
  static support::Immortal<CountedCallback> instance(
      at::RecordFunctionCallback(&begins, &ends).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  return *instance;
}

}  // namespace

std::shared_ptr<ForwardScopes> ForwardScopes::open(captures::Capture& capture) {
  auto scopes = std::make_shared<ForwardScopes>();
  {
    const std::lock_guard lock(all().mutex);
    std::erase_if(all().scopes, [](const auto& each) { return each.expired(); });
    all().scopes.push_back(scopes);
  }
  capture.attach(scopes_of, scopes);
  backward_callback().add();
  scopes->underway_ = true;
  return scopes;
}

void ForwardScopes::end() noexcept try {
  if (std::exchange(underway_, false)) backward_callback().remove();
  const std::uint64_t caller = at::RecordFunction::currentThreadId();
  const std::lock_guard lock(all().mutex);
  for (auto& [thread, boundaries] : threads_) {
    const auto last = boundaries.rbegin();
    if (last == boundaries.rend() || last->second == nullptr) continue;
    // The sequence number that another thread has come to is unknown.
    if (thread == caller)
      boundaries.insert_or_assign(at::sequence_number::peek(), nullptr);
    else
      last->second = nullptr;
  }
} catch (...) {
  warn(no_memory);
}

void ForwardScopes::annotation_changed(const captures::Capture& capture, const Annotation& now) noexcept try {
  const std::shared_ptr<ForwardScopes> scopes = capture.get(scopes_of);
  if (scopes == nullptr) return;
  const std::lock_guard lock(all().mutex);
  scopes->threads_[at::RecordFunction::currentThreadId()].insert_or_assign(
      at::sequence_number::peek(), now.empty() ? nullptr : std::make_shared<const Annotation>(now));
} catch (...) {
  warn(no_memory);
}

Annotation ForwardScopes::of(std::uint64_t thread, std::uint64_t number) {
  const std::lock_guard lock(all().mutex);
  for (const auto& each : all().scopes) {
    const std::shared_ptr<ForwardScopes> scopes = each.lock();
    if (scopes == nullptr) continue;
    const auto known = scopes->threads_.find(thread);
    if (known == scopes->threads_.end()) continue;
    const auto after = known->second.upper_bound(number);
    if (after != known->second.begin() && std::prev(after)->second != nullptr) return *std::prev(after)->second;
  }
  return {};
}

}  // namespace reprise::libtorch
