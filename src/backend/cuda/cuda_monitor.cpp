// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda_monitor.h"

#include <optional>
#include <utility>

#include "backend/cuda/capture_watch.h"
#include "backend/cuda/cupti/cupti_watch.h"

namespace reprise::backend::cuda {

CaptureFindings CudaMonitor::describe_capture(StreamHandle stream) const {
  std::optional<CaptureFindings> watched = describe_watched(stream);
  if (watched && watched->broken_by) return *std::move(watched);
  // The watch of all calls knows more, but perhaps not of this capture.
  CaptureFindings known = CaptureWatch::instance().describe(driver_, stream);
  if (!watched) return known;
  watched->watched = true;
  watched->broken_by = std::move(known.broken_by);
  watched->notes.insert(watched->notes.end(), known.notes.begin(), known.notes.end());
  return *std::move(watched);
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
