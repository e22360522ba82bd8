// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/cupti_nodes.h"
#include "backend/cuda/cupti/cupti_watch.h"

// Replaces cupti_watch.cpp, cupti_nodes.cpp and their helpers in a build without CUPTI's headers.

namespace reprise::backend::cuda {

std::shared_ptr<void> watch_through_cupti(std::string* why) {
  *why = "Calls of CUDA cannot be watched: this library was built without CUPTI (its headers were not found).";
  return nullptr;
}

std::shared_ptr<NodeWatch> watch_nodes_through_cupti(const WatchedNodes&, GraphExecHandle, std::string* why) {
  *why = "Nodes cannot be timed: this library was built without CUPTI (its headers were not found).";
  return nullptr;
}

std::optional<NodeIds> node_ids_from_cupti(const std::vector<WatchedNode>&, GraphExecHandle, std::string* why) {
  *why = "this library was built without CUPTI (its headers were not found)";
  return std::nullopt;
}

std::optional<CaptureFindings> describe_watched(StreamHandle) {
  return std::nullopt;
}

void on_watched_capture(std::function<void(const CaptureFindings&)>) {}

void report_watched_captures_that_did_not_end() {}

}  // namespace reprise::backend::cuda
