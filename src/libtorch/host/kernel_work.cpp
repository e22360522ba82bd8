// SPDX-License-Identifier: Apache-2.0
#include "libtorch/host/kernel_work.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ScopeExit.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <stdexcept>
#include <utility>

#include "backend/host_work.h"
#include "reprise/error.h"
#include "support/forked.h"
#include "support/immortal.h"
#include "text/format.h"

extern "C" void omp_set_num_threads(int) noexcept;  // of libtorch's OpenMP

namespace reprise::libtorch {
namespace {

// Warnings of kernels on a thread of the device, repeated at each replay, would not show their origin. output_shapes()
// passes them on once, at the call of the operator.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// Kernels use static objects of libtorch, which std::exit() destroys while work is pending. It waits for the kernels
// that run; later ones fail.
class ExitGuard {
 public:
  // std::exit() waits for the end of the lock. Throws if it was called.
  std::shared_lock<std::shared_mutex> enter(const std::string& name) {
    std::shared_lock lock(running_);
    if (exits_.load(std::memory_order_relaxed))
      throw std::runtime_error(text::format("{}: not run, because the process ends", name));
    return lock;
  }

  // Registers exits() with std::exit(). To be called after kernels of an operator ran for the first time: std::exit()
  // works in the reverse order of construction and registration, so it then calls exits() before it destroys the
  // static objects that these kernels constructed.
  void register_after(const std::string& name) {
    const std::lock_guard lock(names_mutex_);
    if (names_.insert(name).second) static_cast<void>(std::atexit([] { exit_guard().exits(); }));
  }

  static ExitGuard& exit_guard() {
    static support::Immortal<ExitGuard> instance;
    return *instance;
  }

 private:
  void exits() {
    if (support::forked() || exits_.exchange(true)) return;
    const std::lock_guard all_ended(running_);
  }

  std::shared_mutex running_;  // shared by kernels that run
  std::atomic<bool> exits_ = false;
  std::mutex names_mutex_;
  std::set<std::string> names_;
};

void run(const std::string& name, const std::function<void()>& function) {
  const auto running = ExitGuard::exit_guard().enter(name);
  // One thread of ATen's, so that the order of sums and the splitting of loops are the same on each machine and in each
  // run. at::set_num_threads() would set it for later threads, too.
  const auto several_threads = c10::make_scope_exit([before = at::get_num_threads()] { omp_set_num_threads(before); });
  omp_set_num_threads(1);
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard quiet(&no_warnings);
  const c10::InferenceMode no_inference_mode(false);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  try {
    function();
    ExitGuard::exit_guard().register_after(name);
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

void wait_for(const StreamRef& stream, std::string_view name, std::string_view why) {
  try {
    stream.synchronize();
  } catch (const BackendError& error) {
    TORCH_CHECK(false, name, " has to wait for the device", why, ": ", error.what());
  }
}

}  // namespace reprise::libtorch
