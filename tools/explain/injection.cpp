// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>
#include <string>

#include "backend/cuda/cupti/cupti_watch.h"
#include "explain.h"
#include "inspect/report/report_findings.h"

// libreprise_explain.so: CUDA's driver loads it into a process whose environment names it (CUDA_INJECTION64_PATH), and
// calls InitializeInjection() during the process's first call of CUDA. From then on all captures are watched. It shares
// nothing with a reprise linked into the process: all symbols except that function are hidden.

namespace {

void watch() {
  using namespace reprise;
  const tools::ExplainRequest request = tools::explain_request();
  backend::cuda::on_watched_capture(
      [request](const backend::CaptureFindings& findings) { tools::explain(request, inspect::report_of(findings)); });
  std::string why;
  std::shared_ptr<void> watching = backend::cuda::watch_through_cupti(&why);
  if (watching == nullptr) return tools::write_line(request, why);
  // Until the end of the process: the last capture cannot be predicted.
  [[maybe_unused]] const auto* const kept = new std::shared_ptr<void>(std::move(watching));
  // A program that checks its calls often calls exit() during the capture that it broke.
  std::atexit(&backend::cuda::report_watched_captures_that_did_not_end);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() noexcept {
  try {
    [[maybe_unused]] static const bool once = (watch(), true);
  } catch (...) {
    return 0;
  }
  return 1;
}
