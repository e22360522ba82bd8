// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/monitor/cuda_monitor.h"

#include <utility>

#include "backend/cuda/capture_watch.h"
#include "backend/cuda/cupti/cupti_watch.h"

namespace reprise::backend::cuda {

void CudaMonitor::describe_capture(StreamHandle stream, CaptureReport* report) const {
  // The watch of all calls knows more, but perhaps not of this capture.
  if (!describe_watched(stream, report)) return CaptureWatch::instance().describe(driver_, stream, report);
  if (report->broken_by) return;
  CaptureReport known;
  CaptureWatch::instance().describe(driver_, stream, &known);
  report->broken_by = std::move(known.broken_by);
  report->notes.insert(report->notes.end(), known.notes.begin(), known.notes.end());
}

std::shared_ptr<void> CudaMonitor::watch_calls(std::string* why) {
  // CUPTI prepares itself at the first subscription; that must not break a capture that is underway.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const CUresult exchanged = driver_.cuThreadExchangeStreamCaptureMode(&mode);
  std::shared_ptr<void> watch = watch_through_cupti(why);
  if (exchanged == CUDA_SUCCESS) (void)driver_.cuThreadExchangeStreamCaptureMode(&mode);
  return watch;
}

}  // namespace reprise::backend::cuda
