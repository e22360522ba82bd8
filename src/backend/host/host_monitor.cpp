// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_monitor.h"

#include <mutex>

namespace reprise::backend::host {

CaptureFindings HostMonitor::describe_capture(StreamHandle handle) const {
  const std::lock_guard lock(runtime_.mutex);
  const HostStream* const stream = runtime_.find(handle, device_);
  if (stream == nullptr || stream->capture == nullptr) return {};
  CaptureFindings findings;
  // Nearly every capture is: the copy of nothing would cost as much as the rest.
  if (!stream->capture->findings.is_clean()) findings = stream->capture->findings;
  findings.watched = runtime_.watchers > 0;
  findings.may_copy = stream->capture->graph != nullptr && stream->capture->graph->copies;
  findings.thread = stream->capture->thread_number;
  if (!findings.broken_by) findings.nodes = stream->capture->graph->nodes.size();
  return findings;
}

std::shared_ptr<void> HostMonitor::watch_calls(std::string*) {
  // Every call is seen anyway; what costs something is noted only while calls are watched.
  {
    const std::lock_guard lock(runtime_.mutex);
    ++runtime_.watchers;
  }
  // Without the mutex: for lack of memory the result calls its deleter at once.
  return {this, [this](void*) {
            const std::lock_guard lock(runtime_.mutex);
            --runtime_.watchers;
          }};
}

std::unordered_map<GraphNodeHandle, std::uint64_t> HostMonitor::profiler_ids(GraphHandle, GraphExecHandle,
                                                                             std::string* why) {
  *why = "A simulated device has no profiler that would name its nodes.";
  return {};
}

}  // namespace reprise::backend::host
