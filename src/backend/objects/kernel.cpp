// SPDX-License-Identifier: Apache-2.0
#include "reprise/kernel.h"

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/objects/outside_work.h"
#include "backend/rules/kernel_text.h"
#include "support/immortal.h"
#include "text/demangle.h"
#include "text/format.h"

namespace reprise::detail {
namespace {

// More shared memory than this, in bytes, has to be enabled by an attribute of the kernel.
constexpr unsigned shared_bytes_without_attribute = 48 * 1024;

[[noreturn]] void kernel_not_compiled(const StreamRef& stream, const KernelRecord& record) {
  throw UsageError(text::format(
      "expected a kernel that was compiled for the device of the stream, {}; found kernel {}, whose launch "
      "was compiled for another; {}",
      stream.device().str(), record.name,
      stream.device().type() == DeviceType::cuda
          ? "compile the file that launches it with nvcc, or launch it on the host device"
          : "launch it on a CUDA device"));
}

// CUDA refuses the whole launch, too, but breaks a capture by it.
void require_threads_fit(const LaunchConfig& config) {
  constexpr unsigned most = 0x7FFFFFFF;
  if (config.grid.x <= most) return;
  throw UsageError(
      text::format("launch expected a grid of at most {} blocks in x; found {}{}; was the number of threads negative "
                   "before it became a std::size_t? Nothing was launched.",
                   most, config.grid.x == 0xFFFFFFFFU ? "more, " : "", config.grid.x));
}

}  // namespace

std::string kernel_name(const std::type_info& type) {
  return backend::without_inline_namespace(text::demangle(type.name()));
}

const KernelRecord& global_function_record(const KernelRecord& prototype, const std::type_info& type) {
  if (prototype.symbol == nullptr)
    throw UsageError(text::format(
        "launch expected a __global__ function; found a null pointer to a function of type {}", kernel_name(type)));
  struct Records {
    std::shared_mutex mutex;
    std::unordered_map<const void*, std::unique_ptr<const KernelRecord>> by_symbol;
  };
  static support::Immortal<Records> records;
  {
    const std::shared_lock lock(records->mutex);
    const auto found = records->by_symbol.find(prototype.symbol);
    if (found != records->by_symbol.end()) return *found->second;
  }
  auto made = std::make_unique<KernelRecord>(prototype);
  // The symbol's name is not available without the device.
  made->name = "__global__ " + kernel_name(type);
  const std::unique_lock lock(records->mutex);
  return *records->by_symbol.try_emplace(prototype.symbol, std::move(made)).first->second;
}

void size_out_of_range(const char* call, const void* address, std::size_t count, std::size_t value_bytes) {
  throw UsageError(text::format(
      "{} expected at most {} values of {} bytes each, which end at the last address; found {} at {}; was the count "
      "negative before it became a std::size_t?",
      call, (SIZE_MAX - reinterpret_cast<std::uintptr_t>(address)) / value_bytes, value_bytes, count, address));
}

void shared_memory_exceeded(std::size_t wanted, std::size_t available) {
  throw Error(
      text::format("a block kernel takes {} bytes of shared memory, but its launch gives a block only {}; set "
                   "LaunchConfig::shared_bytes to at least {}",
                   wanted, available, wanted));
}

void launch_kernel(const StreamRef& stream, const LaunchConfig& config, const KernelRecord& record, void** params) {
  require_threads_fit(config);
  backend::OutsideWork::require_none(stream, record.name.c_str());
  const backend::Checked runtime(stream.device().backend());
  backend::KernelNodeParams launch{nullptr, config, params};
  if (!runtime.allowing(ErrorCode::invalid_device_function).kernel_function(record, &launch.function))
    kernel_not_compiled(stream, record);
  if (config.shared_bytes > shared_bytes_without_attribute)
    runtime.function_set_max_shared(launch.function, config.shared_bytes);
  runtime.launch_kernel(launch, stream.native());
}

}  // namespace reprise::detail
