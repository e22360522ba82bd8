// SPDX-License-Identifier: Apache-2.0
#include <cupti_activity.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

// Activity records of the same library: those that a test makes up, of the kinds that are enabled. The number of a node
// or of an executable is its handle. The environment breaks it:
//   FAKE_LIBCUPTI_ACTIVITY     what cuptiActivityEnable returns for memset
//   FAKE_LIBCUPTI_DROPPED      how many records were dropped
//   FAKE_LIBCUPTI_HELD         how many calls of cuptiActivityFlushAll, unless forced, give none, as if work of the
//   same
//                              buffer were not over

namespace {

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
std::set<CUpti_ActivityKind> enabled;
std::vector<std::uint8_t> pending;

unsigned number_from(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : static_cast<unsigned>(std::atoi(text));
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel9);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    default:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
  }
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  request = requested;
  complete = completed;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const auto result = static_cast<CUptiResult>(number_from("FAKE_LIBCUPTI_ACTIVITY"));
  if (kind == CUPTI_ACTIVITY_KIND_MEMSET && result != CUPTI_SUCCESS) return result;
  enabled.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  enabled.erase(kind);
  return CUPTI_SUCCESS;
}

// Gives all records, in one buffer that is as long as they are, or as the owner's.
CUptiResult cuptiActivityFlushAll(uint32_t how) {
  static unsigned calls = 0;
  if (complete == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  if (pending.empty()) return CUPTI_SUCCESS;
  if (how != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED && calls++ < number_from("FAKE_LIBCUPTI_HELD")) return CUPTI_SUCCESS;
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t most = 0;
  request(&buffer, &size, &most);
  if (size < pending.size()) return CUPTI_ERROR_OUT_OF_MEMORY;
  std::memcpy(buffer, pending.data(), pending.size());
  const std::size_t valid = pending.size();
  pending.clear();
  complete(nullptr, 0, buffer, size, valid);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  std::uint8_t* next = buffer;
  if (*record != nullptr) next = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = number_from("FAKE_LIBCUPTI_DROPPED");
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  *id = reinterpret_cast<std::uintptr_t>(node);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetGraphExecId(CUgraphExec exec, uint32_t* id) {
  *id = static_cast<uint32_t>(reinterpret_cast<std::uintptr_t>(exec));
  return CUPTI_SUCCESS;
}

/// The device did something, and a record of it is made if its kind is enabled.
void fake_cupti_record(const CUpti_Activity* activity) {
  if (!enabled.contains(activity->kind)) return;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(activity);
  pending.insert(pending.end(), bytes, bytes + size_of(activity->kind));
}

int fake_cupti_enabled_kinds() {
  return static_cast<int>(enabled.size());
}

}  // extern "C"
