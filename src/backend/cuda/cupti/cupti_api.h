// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>

#include <string>

namespace reprise::backend::cuda {

/// The functions of CUPTI in use, from a library that is opened at run time and never closed.
struct CuptiApi {
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableDomain) enable_domain = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
#if CUPTI_API_VERSION >= 130000
  decltype(&cuptiSubscribe_v2) subscribe_v2 = nullptr;  ///< names the previous subscriber; may be missing
#endif

  // For activity records. All are set, or `lacks_activities` names a missing one.
  decltype(&cuptiActivityRegisterCallbacks) register_buffers = nullptr;
  decltype(&cuptiActivityEnable) enable_activity = nullptr;
  decltype(&cuptiActivityDisable) disable_activity = nullptr;
  decltype(&cuptiActivityFlushAll) flush_activities = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiGetGraphNodeId) graph_node_id = nullptr;
  decltype(&cuptiGetGraphExecId) graph_exec_id = nullptr;
  const char* lacks_activities = nullptr;
};

/// The result of opening CUPTI.
struct OpenedCupti {
  CuptiApi api;
  std::string file;         ///< the library's name in the loader
  std::string unavailable;  ///< why there is none, without a full stop; empty if there is
};

/// Opens CUPTI 13 or 12, whichever of the two the headers were of: what is used of them is the same. One already loaded
/// in the process, else one found by the loader, else that of CUDA's toolkit (`CUDA_HOME`, `CUDA_PATH`,
/// /usr/local/cuda). CUPTI 13 needs a driver of CUDA 13, so that with an older one only CUPTI 12 is opened. A success
/// is kept for the process; a failure is retried.
OpenedCupti opened_cupti();

/// The failure of a call, as "cuptiSubscribe of libcupti.so.13 returned 1 (reason)".
std::string failure_text(const OpenedCupti& cupti, const char* call, CUptiResult result);

/// As opened_cupti(), if CUPTI is loaded in the process already.
OpenedCupti loaded_cupti();

}  // namespace reprise::backend::cuda
