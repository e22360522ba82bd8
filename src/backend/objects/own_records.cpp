// SPDX-License-Identifier: Apache-2.0
#include "backend/own_records.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "support/immortal.h"

namespace reprise::backend {
namespace {

struct OwnRecords {
  std::shared_mutex mutex;
  std::unordered_set<const KernelRecord*> records;
  std::unordered_map<FunctionHandle, const KernelRecord*> functions;  // of all CUDA devices
  std::unordered_map<FunctionHandle, KernelAccesses> accesses;        // likewise, of all records
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

void add_own_function(const KernelRecord& record, FunctionHandle function) {
  OwnRecords& own = own_records();
  const std::unique_lock lock(own.mutex);
  if (own.records.contains(&record)) own.functions.insert_or_assign(function, &record);
  own.accesses.insert_or_assign(function, record.accesses);  // null, too: the handle may be that of an unloaded one
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
  const auto found = own.accesses.find(function);
  return found != own.accesses.end() ? found->second : nullptr;
}

}  // namespace reprise::backend
