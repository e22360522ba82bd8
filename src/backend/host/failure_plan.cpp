// SPDX-License-Identifier: Apache-2.0
#include "backend/host/failure_plan.h"

#include <algorithm>

#include "text/format.h"

namespace reprise::backend {
namespace {

std::string detail_of(Call call, const FailurePlan::Failure& failure) {
  return text::format("the failure was injected: {} was not made; it was call {} {} since the request", cuda_name(call),
                      failure.nth, failure.call ? "of its kind" : "of any kind");
}

}  // namespace

FailurePlan::Id FailurePlan::add(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  pending_.push_back({++last_id_, failure, failure.nth});
  remember_any();
  return last_id_;
}

void FailurePlan::remove(Id id) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [id](const Pending& pending) { return pending.id == id; });
  remember_any();
}

void FailurePlan::clear() noexcept {
  const std::lock_guard lock(mutex_);
  pending_.clear();
  remember_any();
}

bool FailurePlan::contains(Id id) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(pending_.begin(), pending_.end(), [id](const Pending& pending) { return pending.id == id; });
}

std::optional<FailurePlan::Happened> FailurePlan::next(Call call, const Backend& device) {
  const std::lock_guard lock(mutex_);
  auto due = pending_.end();
  for (auto pending = pending_.begin(); pending != pending_.end(); ++pending) {
    const Failure& failure = pending->failure;
    if ((failure.call && *failure.call != call) || (failure.device != nullptr && failure.device != &device)) continue;
    if (pending->left > 1)
      --pending->left;
    else if (due == pending_.end())
      due = pending;
  }
  if (due == pending_.end()) return std::nullopt;
  Happened happened{due->failure.code, detail_of(call, due->failure)};
  pending_.erase(due);
  remember_any();
  return happened;
}

}  // namespace reprise::backend
