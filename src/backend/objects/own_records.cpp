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
  KernelAccesses accesses;
  std::vector<KernelParam> params;
};

struct OwnRecords {
  std::shared_mutex mutex;
  std::unordered_set<const KernelRecord*> records;
  std::unordered_map<FunctionHandle, const KernelRecord*> functions;  // of all CUDA devices
  std::unordered_map<FunctionHandle, Described> described;            // likewise, of all records
};

OwnRecords& own_records() {
  static support::Immortal<OwnRecords> instance;
  return *instance;
}

}  // namespace

const KernelRecord& add_own_record(const KernelRecord& record) {
  OwnRecords& own = own_records();
  const std::unique_lock lock(own.mutex);
  own.records.insert(&record);
  return record;
}

void add_function(const KernelRecord& record, FunctionHandle function) {
  Described described{record.accesses, {record.params.begin(), record.params.end()}};
  OwnRecords& own = own_records();
  const std::unique_lock lock(own.mutex);
  if (own.records.contains(&record)) own.functions.insert_or_assign(function, &record);
  own.described.insert_or_assign(function, std::move(described));  // the handle may be that of an unloaded one
}

void complete_param(FunctionHandle function, std::size_t index, KernelParam* param) {
  OwnRecords& own = own_records();
  const std::shared_lock lock(own.mutex);
  const auto known = own.described.find(function);
  if (known == own.described.end() || index >= known->second.params.size()) return;
  const KernelParam& described = known->second.params[index];
  if (described.size == param->size)
    *param = {param->offset, param->size, described.whole, described.type, described.cleared};
}

const KernelRecord* own_record(const Backend& backend, FunctionHandle function) {
  OwnRecords& own = own_records();
  const std::shared_lock lock(own.mutex);
  if (backend.type() == DeviceType::host) {  // there the function is the record itself
    const auto found = own.records.find(reinterpret_cast<const KernelRecord*>(function));
    return found != own.records.end() ? *found : nullptr;
  }
  const auto found = own.functions.find(function);
  return found != own.functions.end() ? found->second : nullptr;
}

KernelAccesses accesses_of(const Backend& backend, FunctionHandle function) {
  if (backend.type() == DeviceType::host) return reinterpret_cast<const KernelRecord*>(function)->accesses;
  OwnRecords& own = own_records();
  const std::shared_lock lock(own.mutex);
  const auto found = own.described.find(function);
  return found != own.described.end() ? found->second.accesses : nullptr;
}

}  // namespace reprise::backend
