// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/kernel_work.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/InferenceMode.h>

#include <stdexcept>
#include <utility>

#include "backend/host_work.h"
#include "text/format.h"

extern "C" void omp_set_num_threads(int) noexcept;  // of libtorch's OpenMP

namespace reprise::libtorch {
namespace {

// One thread of ATen's, so that the order of sums and the splitting of loops are the same on each machine and in each
// run. at::set_num_threads() would set it for later threads, too.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Warnings of kernels on a thread of the device, repeated at each replay, would not show their origin. output_shapes()
// passes them on once, at the call of the operator.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

void run(const std::string& name, const std::function<void()>& function) {
  const OneThread one_thread;
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard quiet(&no_warnings);
  const c10::InferenceMode no_inference_mode(false);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  try {
    function();
  } catch (const c10::Error& error) {
    throw std::runtime_error(text::format("{}: {}", name, error.what_without_backtrace()));
  }
}

}  // namespace

void enqueue_kernels(const StreamRef& stream, const std::string& name, std::function<void()> function,
                     std::span<const MemoryAccess> operands) {
  backend::enqueue(
      stream, name, [name, function = std::move(function)] { run(name, function); }, operands);
}

}  // namespace reprise::libtorch
