// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cupti_activity.h>
#include <cupti_callbacks.h>

#include <string>

namespace reprise::backend::cuda {

/// The functions of CUPTI that are used, of a library that is opened at run time and never closed.
struct CuptiApi {
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableDomain) enable_domain = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  decltype(&cuptiSubscribe_v2) subscribe_v2 = nullptr;  ///< names who subscribed before; may be missing

  // Of activity records. All of them are there, or `lacks_activities` names one that is not.
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

/// What came of opening it.
struct OpenedCupti {
  CuptiApi api;
  std::string file;         ///< the library, as the loader names it
  std::string unavailable;  ///< why there is none, without a full stop; empty if there is
};

/// Opens CUPTI: the one of the process if it has one already, else that of the loader, else that of CUDA's toolkit
/// (`CUDA_HOME`, `CUDA_PATH`, /usr/local/cuda). A success is kept for the process; a failure is tried again.
OpenedCupti opened_cupti();

}  // namespace reprise::backend::cuda
