// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/condition.h"

#include <mutex>
#include <unordered_map>

#include "backend/host/capture/host_graph.h"
#include "backend/host_conditions.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend {
namespace host {
namespace {

// All conditions of the process, by handle; operations may run until it ends. The mutex is a leaf.
struct Conditions {
  std::mutex mutex;
  std::unordered_map<ConditionalHandle, HostCondition*> all;
};

Conditions& conditions() {
  return support::Immortal<Conditions>::get();
}

}  // namespace

HostCondition::HostCondition(unsigned at_launch) : handle(next_id()), default_value(at_launch), value(at_launch) {
  const std::lock_guard lock(conditions().mutex);
  conditions().all.emplace(handle, this);
}

HostCondition::~HostCondition() {
  const std::lock_guard lock(conditions().mutex);
  conditions().all.erase(handle);
}

}  // namespace host

void set_host_condition(ConditionalHandle handle, unsigned value) {
  host::Conditions& known = host::conditions();
  const std::lock_guard lock(known.mutex);
  const auto found = known.all.find(handle);
  if (found == known.all.end())
    throw UsageError(
        text::format("expected the handle of a condition whose graph exists, or has executables; "
                     "found {}; pass the handle that graph_conditional_handle_create() returned",
                     handle));
  found->second->value.store(value, std::memory_order_relaxed);
}

}  // namespace reprise::backend
