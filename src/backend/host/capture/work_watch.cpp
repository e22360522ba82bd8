// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture/work_watch.h"

#include <mutex>
#include <new>
#include <vector>

#include "backend/host/capture/host_capture.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/cuda_calls.h"
#include "backend/rules/work_call.h"

namespace reprise::backend::host {

HostWorkWatch::HostWorkWatch(HostRuntime& runtime, HostDevice& device, StreamHandle stream, GraphNodeHandle last)
    : runtime_(runtime), last_(last) {
  const std::lock_guard lock(runtime_.mutex);
  stream_ = runtime_.find(stream, device);
  runtime_.work_watches.push_back(this);
}

HostWorkWatch::~HostWorkWatch() {
  const std::lock_guard lock(runtime_.mutex);
  std::erase(runtime_.work_watches, this);
}

std::optional<CaptureFindings::ObservedCall> HostWorkWatch::first() const {
  const std::lock_guard lock(runtime_.mutex);
  return call_;
}

bool HostWorkWatch::has_work() const {
  if (!runtime_.streams.contains(stream_) || stream_->capture == nullptr) return false;
  const std::vector<Dependency>& now = stream_->capture_dependencies;
  return now.size() != 1 || handle_of(*now.front().node) != last_;
}

void HostWorkWatch::note(const HostRuntime& runtime, Call call) noexcept {
  for (HostWorkWatch* const watch : runtime.work_watches) {
    if (watch->over_ || !watch->has_work()) continue;
    watch->over_ = true;
    try {
      watch->call_ = work_call(cuda_name(call), handle_of(*watch->stream_));
    } catch (const std::bad_alloc&) {
      // The call stays unknown.
    }
  }
}

bool HostWorkWatch::lacks_stack() const {
  return call_ && call_->stack.empty() && call_->thread == thread_number();
}

void HostWorkWatch::complete(const std::vector<std::string>& stack, const std::string& annotation) {
  if (!lacks_stack()) return;
  call_->stack = stack;
  call_->detail = annotation;
}

}  // namespace reprise::backend::host
