// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/forward_scopes.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "reprise/error.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

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

struct Callback {
  std::mutex mutex;
  int wanted = 0;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
};

Callback& callback() {
  static support::Immortal<Callback> instance;
  return *instance;
}

}  // namespace

std::shared_ptr<ForwardScopes> ForwardScopes::open(DeviceType type, std::uint64_t capture_id) {
  const std::shared_ptr<ForwardScopes> scopes(new ForwardScopes(type, capture_id));
  const std::lock_guard lock(all().mutex);
  std::erase_if(all().scopes, [](const auto& each) { return each.expired(); });
  all().scopes.push_back(scopes);
  return scopes;
}

void ForwardScopes::end() noexcept {
  const std::lock_guard lock(all().mutex);
  ended_ = true;
}

void ForwardScopes::annotation_changed(DeviceType type, std::uint64_t capture_id, const Annotation& now) noexcept try {
  const std::uint64_t thread = at::RecordFunction::currentThreadId();
  const std::uint64_t next = at::sequence_number::peek();
  const std::lock_guard lock(all().mutex);
  for (const auto& each : all().scopes) {
    const std::shared_ptr<ForwardScopes> scopes = each.lock();
    if (scopes == nullptr || scopes->type_ != type || scopes->capture_id_ != capture_id) continue;
    if (scopes->ended_ && !now.empty()) continue;
    scopes->threads_[thread].insert_or_assign(next, now.empty() ? nullptr : std::make_shared<const Annotation>(now));
  }
} catch (...) {
  warn(
      "There was no memory to note a scope for the backward pass, whose nodes may have no annotation, or a wrong one.");
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

BackwardAnnotations::BackwardAnnotations() {
  Callback& all_of_them = callback();
  const std::lock_guard lock(all_of_them.mutex);
  if (all_of_them.handle == at::INVALID_CALLBACK_HANDLE)
    all_of_them.handle =
        at::addGlobalCallback(at::RecordFunctionCallback(&begins, &ends).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  else if (all_of_them.wanted == 0)
    at::reenableCallback(all_of_them.handle);
  ++all_of_them.wanted;
}

BackwardAnnotations::~BackwardAnnotations() {
  Callback& all_of_them = callback();
  const std::lock_guard lock(all_of_them.mutex);
  if (--all_of_them.wanted == 0) at::disableCallback(all_of_them.handle);
}

}  // namespace reprise::libtorch
