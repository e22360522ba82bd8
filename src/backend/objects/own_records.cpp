// SPDX-License-Identifier: Apache-2.0
#include "backend/own_records.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "support/immortal.h"

namespace reprise::backend {
namespace {

/// What is kept of a record, which may be unloaded.
struct Described {
  const KernelRecord* own;  // null: not of this library
  KernelAccesses accesses;
  std::vector<KernelParam> params;
};

struct OwnRecords {
  std::shared_mutex mutex;
  std::unordered_set<const KernelRecord*> records;
  std::unordered_map<FunctionHandle, Described> functions;  // of all CUDA devices and records
};

}  // namespace

const KernelRecord& add_own_record(const KernelRecord& record) {
  OwnRecords& own = support::Immortal<OwnRecords>::get();
  const std::unique_lock lock(own.mutex);
  own.records.insert(&record);
  return record;
}

void add_function(const KernelRecord& record, FunctionHandle function) {
  Described described{nullptr, record.accesses, {record.params.begin(), record.params.end()}};
  OwnRecords& own = support::Immortal<OwnRecords>::get();
  const std::unique_lock lock(own.mutex);
  if (own.records.contains(&record)) described.own = &record;
  own.functions.insert_or_assign(function, std::move(described));  // the handle may be that of an unloaded one
}

void complete_param(FunctionHandle function, std::size_t index, KernelParam* param) {
  OwnRecords& own = support::Immortal<OwnRecords>::get();
  const std::shared_lock lock(own.mutex);
  const auto known = own.functions.find(function);
  if (known == own.functions.end() || index >= known->second.params.size()) return;
  const KernelParam& described = known->second.params[index];
  if (described.size == param->size)
    *param = {param->offset, param->size, described.whole, described.type, described.cleared};
}

const KernelRecord* own_record(const Backend& backend, FunctionHandle function) {
  OwnRecords& own = support::Immortal<OwnRecords>::get();
  const std::shared_lock lock(own.mutex);
  if (backend.type() == DeviceType::host) {  // there the function is the record itself
    const auto found = own.records.find(reinterpret_cast<const KernelRecord*>(function));
    return found != own.records.end() ? *found : nullptr;
  }
  const auto found = own.functions.find(function);
  return found != own.functions.end() ? found->second.own : nullptr;
}

KernelAccesses accesses_of(const Backend& backend, FunctionHandle function) {
  if (backend.type() == DeviceType::host) return reinterpret_cast<const KernelRecord*>(function)->accesses;
  OwnRecords& own = support::Immortal<OwnRecords>::get();
  const std::shared_lock lock(own.mutex);
  const auto found = own.functions.find(function);
  return found != own.functions.end() ? found->second.accesses : nullptr;
}

}  // namespace reprise::backend
