// SPDX-License-Identifier: Apache-2.0
#include "reprise/host_device.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "backend/backend.h"
#include "backend/host/host_runtime.h"
#include "support/immortal.h"
#include "text/format.h"

// Failures injected by program, of all host devices of the process.

namespace reprise {
namespace backend {
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

namespace host {
namespace {

constexpr std::pair<std::string_view, Call> call_names[] = {
#define REPRISE_CALL(name, cuda, parameters, arguments) {#name, Call::name}, {cuda, Call::name},
#include "backend/calls.def"
};

// The call of that name: the driver's, in any of its versions, or that of Backend. nullopt if there is none.
std::optional<Call> find_call(std::string_view name) {
  // In the same form as in reports of other devices.
  for (const std::string_view version : {"_v2", "_v3", "_v4"})
    if (name.ends_with(version)) name.remove_suffix(version.size());
  const auto* const found = std::ranges::find(call_names, name, &std::pair<std::string_view, Call>::first);
  return found == std::end(call_names) ? std::nullopt : std::optional(found->second);
}

}  // namespace

FailurePlan& injected_failures() {
  return support::Immortal<FailurePlan>::get();  // devices call it until the process ends
}

}  // namespace host
}  // namespace backend

namespace {

bool is_host_device(const backend::Backend& device) {
  if (device.of_simulator()) return true;
  const std::vector<backend::Backend*>& all = backend::host_backends();
  return std::find(all.begin(), all.end(), &device) != all.end();
}

}  // namespace

InjectedFailure::InjectedFailure(const HostFailure& failure) {
  const auto call = backend::host::find_call(failure.call);
  if (!call)
    throw UsageError(
        text::format("InjectedFailure expected the name of a call of the runtime, such as cuMemAlloc or "
                     "memory_allocate; found \"{}\"; they are those of the CUDA driver that docs/host-device.md lists",
                     failure.call));
  if (failure.code == ErrorCode::success) throw UsageError("InjectedFailure expected the code of an error; found 0");
  if (failure.nth == 0) throw UsageError("InjectedFailure counts calls from 1; found 0");
  const backend::Backend* const device = failure.device ? &failure.device->backend() : nullptr;
  if (device != nullptr && !is_host_device(*device))
    throw UsageError(
        text::format("InjectedFailure expected a host device, since no call of another can be made to fail; found {}",
                     failure.device->str()));
  id_ = backend::host::injected_failures().add({call, failure.code, failure.nth, device});
}

InjectedFailure::~InjectedFailure() {
  backend::host::injected_failures().remove(id_);
}

bool InjectedFailure::happened() const noexcept {
  return !backend::host::injected_failures().contains(id_);
}

}  // namespace reprise
