// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda_backend.h"

#include <array>
#include <atomic>
#include <deque>

#include "backend/check.h"
#include "support/environment.h"
#include "support/immortal.h"
#include "support/process_end.h"
#include "text/format.h"

// The device itself.

namespace reprise::backend::cuda {

CUresult CudaBackend::primary_context(CUcontext* context) {
  const std::scoped_lock lock(primary_mutex_);
  *context = primary_.load(std::memory_order_relaxed);
  if (*context != nullptr) return CUDA_SUCCESS;
  // Creating a context allocates, which must not break a capture on another device.
  const RelaxedCaptureMode relaxed(*this);
  const CUresult retained = driver_.cuDevicePrimaryCtxRetain(context, device_);
  if (retained == CUDA_SUCCESS) {
    support::watch_process_end();  // after the driver's own function of atexit(), which thus runs later
    primary_.store(*context, std::memory_order_release);
  }
  return retained;
}

CUresult CudaBackend::make_current(CUcontext current, bool* pushed) {
  CUcontext primary = nullptr;
  if (const CUresult result = primary_context(&primary); result != CUDA_SUCCESS) return result;
  if (current == primary) return CUDA_SUCCESS;
  if (current == nullptr) return driver_.cuCtxSetCurrent(primary);
  const CUresult result = driver_.cuCtxPushCurrent(primary);
  *pushed = result == CUDA_SUCCESS;
  return result;
}

namespace {

// Static objects that are older than the first use of CUDA end later than the driver. What they wait for is over.
Result after_the_driver(Call call, CUresult result) {
  switch (call) {
    case Call::device_synchronize:
    case Call::stream_synchronize:
    case Call::stream_query:
    case Call::event_synchronize:
    case Call::event_query:
      return ErrorCode::success;
    default:
      return {to_result(result),
              "the process ends, and CUDA's driver has shut down before the static object that makes this call: make "
              "the object after the first use of the device, or end its work before main() returns"};
  }
}

}  // namespace

Result CudaBackend::note_failure(CallSite site, CUresult result) const {
  if (came_after_the_driver(*this, to_result(result))) return after_the_driver(site.call, result);
  CaptureWatch& watch = CaptureWatch::instance();
  watch.failed(driver_, site, result);
  const bool is_consequence = result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && site.has_stream;
  if (result == CUDA_ERROR_NOT_READY) return to_result(result);
  return Result::logged(to_result(result), is_consequence ? watch.first_error(driver_, site.stream) : std::string());
}

std::string CudaBackend::device_name() const {
  std::array<char, 256> name{};
  const CUresult result = driver_.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device_);
  return result == CUDA_SUCCESS ? name.data() : "CUDA device";
}

Result CudaBackend::device_synchronize() {
  return enter(Call::device_synchronize, [&] { return driver_.cuCtxSynchronize(); });
}

Result CudaBackend::memory_info(MemoryInfo* info) {
  return enter_for<MemoryInfo>(Call::memory_info, info,
                               [&](MemoryInfo* found) { return driver_.cuMemGetInfo(&found->free, &found->total); });
}

Result CudaBackend::stream_priority_range(int* least, int* greatest) {
  return enter(Call::stream_priority_range, [&] { return driver_.cuCtxGetStreamPriorityRange(least, greatest); });
}

}  // namespace reprise::backend::cuda

namespace reprise::backend {
namespace {

// Warns once in a process. The warning sink may look for devices itself, so that this can be entered again.
void warn_if_passed_over() {
  static std::atomic<bool> done{false};
  if (done.load(std::memory_order_relaxed) || done.exchange(true)) return;
  const cuda::OpenedDriver& driver = cuda::opened_driver();
  if (!driver.passes_over || support::environment("REPRISE_DEVICE").starts_with("host")) return;
  warn(
      text::format("The GPUs of this machine are not used: {}. Install a driver that fits; REPRISE_DEVICE=host "
                   "silences this warning.",
                   driver.unavailable));
}

}  // namespace

const std::vector<Backend*>& cuda_backends() {
  struct Backends {
    Backends() {
      const cuda::OpenedDriver& driver = cuda::opened_driver();
      for (int i = 0; driver.unavailable.empty() && i < driver.device_count; ++i) {
        CUdevice device = 0;
        // Fails only for a number that the driver did not count.
        if (driver.api.cuDeviceGet(&device, i) == CUDA_SUCCESS)
          all.push_back(&made.emplace_back(driver.api, device, i));
      }
    }
    std::deque<cuda::CudaBackend> made;
    std::vector<Backend*> all;
  };
  static const support::Immortal<Backends> backends;
  warn_if_passed_over();
  return backends->all;
}

Backend* cuda_backend_of(StreamHandle stream) {
  const std::vector<Backend*>& all = cuda_backends();
  if (all.size() < 2) return all.empty() ? nullptr : all.front();
  const cuda::DriverApi& driver = cuda::opened_driver().api;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUdevice device = 0;
  if (driver.cuStreamGetDevice == nullptr || driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_NONE || driver.cuStreamGetDevice(stream, &device) != CUDA_SUCCESS)
    return nullptr;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CUdevice known = 0;
    if (driver.cuDeviceGet(&known, static_cast<int>(i)) == CUDA_SUCCESS && known == device) return all[i];
  }
  return nullptr;
}

const std::string& cuda_unavailable_reason() {
  return cuda::opened_driver().unavailable;
}

}  // namespace reprise::backend
