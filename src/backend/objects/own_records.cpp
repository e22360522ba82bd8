// SPDX-License-Identifier: Apache-2.0
#include "backend/own_records.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "support/immortal.h"

namespace reprise::backend {
namespace {

struct OwnRecords {
  std::shared_mutex mutex;
  std::unordered_set<const KernelRecord*> records;
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

const KernelRecord* own_record(const Backend& backend, FunctionHandle function) {
  OwnRecords& own = own_records();
  const std::shared_lock lock(own.mutex);
  // The function of a host device is the record itself.
  const bool on_host = backend.type() == DeviceType::host;
  const auto found = on_host ? own.records.find(reinterpret_cast<const KernelRecord*>(function))
                             : std::ranges::find_if(own.records, [&](const KernelRecord* record) {
                                 return function != nullptr && record->cuda_functions.find(backend.index()) == function;
                               });
  return found != own.records.end() ? *found : nullptr;
}

}  // namespace reprise::backend
