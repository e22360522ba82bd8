// SPDX-License-Identifier: Apache-2.0
#if __has_include(<nccl.h>)

#define USE_C10D_NCCL  // as libtorch was built
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <atomic>
#include <exception>
#include <utility>

#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/distributed/nccl_group.h"
#include "reprise/error.h"
#include "text/format.h"

// The process group of NCCL. Its watchdog queries events in mode `thread`, so that it breaks no capture.

namespace reprise::libtorch {
namespace {

/// Shuts NCCL down in the destructor: c10d's own destructor warns, and leaves the communicators to the end of the
/// process.
class NcclGroup final : public c10d::ProcessGroupNCCL {
 public:
  NcclGroup(c10::Device device, c10::intrusive_ptr<c10d::Store> store, int rank, int size,
            c10::intrusive_ptr<Options> options)
      : ProcessGroupNCCL(std::move(store), rank, size, std::move(options)), device_(device) {}
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  // Maybe within a capture, by the graph that held it last.
  ~NcclGroup() override {
    try {
      const CaptureModeGuard relaxed(CaptureMode::relaxed, cuda_device_of(device_));
      const c10::cuda::CUDAGuard guard(device_);
      shutdown();
    } catch (const std::exception& error) {
      try {
        warn(text::format("The process group of NCCL could not be ended: {}", error.what()));
      } catch (...) {
        warn("The process group of NCCL could not be ended, and there was no memory to say why.");
      }
    }
  }

 private:
  const c10::Device device_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_nccl_group(c10::Device device, const ProcessEnvironment& environment,
                                                  const ProcessGroupOptions& options) {
  const Device here = cuda_device_of(device);  // a device that does not exist is refused before others wait for it
  const DeviceGuard guard(here);
  const c10::cuda::CUDAGuard torch_guard(device);
  auto of_group = c10d::ProcessGroupNCCL::Options::create();
  of_group->timeout = options.timeout;
  // The store of a launcher outlives a group, whose keys another one would read. Each rank makes them in one order.
  static std::atomic<int> count = 0;
  auto store =
      c10::make_intrusive<c10d::PrefixStore>(text::format("group{}", count++), rendezvous(environment, options));
  return c10::make_intrusive<NcclGroup>(device, std::move(store), environment.rank, environment.world_size,
                                        std::move(of_group));
}

}  // namespace reprise::libtorch

#else

#include "libtorch/distributed/nccl_group.h"
#include "reprise/error.h"

namespace reprise::libtorch {

c10::intrusive_ptr<c10d::Backend> make_nccl_group(c10::Device /*device*/, const ProcessEnvironment& /*environment*/,
                                                  const ProcessGroupOptions& /*options*/) {
  throw UsageError(
      "init_process_group: this library was built without NCCL, whose header nccl.h was not found next to libtorch. "
      "Build it with the pip package nvidia-nccl of that libtorch (scripts/setup-libtorch gets it), or pass "
      "DataParallel "
      "a process group of your own.");
}

}  // namespace reprise::libtorch

#endif
