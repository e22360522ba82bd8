// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/work.h"

#include <cxxabi.h>

#include <cstring>
#include <exception>
#include <type_traits>
#include <typeinfo>

#include "backend/host/host_runtime.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/running.h"
#include "support/thread_object.h"
#include "text/demangle.h"
#include "text/format.h"

namespace reprise::backend::host {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// Shared memory is uninitialised on a GPU; a kernel that relies on zeros must not find them here.
constexpr unsigned char shared_garbage = 0xCD;

// An operation of one device may access memory of another one of the runtime, for example a copy between them.
class AccessToAllMemory {
 public:
  explicit AccessToAllMemory(HostRuntime& runtime) noexcept : runtime_(runtime) {
    if (!runtime.devices.front()->memory().protects()) return;  // the same for all
    while (entered_ < runtime.devices.size() && runtime.devices[entered_]->memory().enter()) ++entered_;
    refused_ = entered_ < runtime.devices.size();
  }
  ~AccessToAllMemory() {
    while (entered_ > 0) runtime_.devices[--entered_]->memory().leave();
  }
  AccessToAllMemory(const AccessToAllMemory&) = delete;
  AccessToAllMemory& operator=(const AccessToAllMemory&) = delete;

  /// The system did not make the memory accessible.
  bool refused() const noexcept { return refused_; }

 private:
  HostRuntime& runtime_;
  std::size_t entered_ = 0;
  bool refused_ = false;
};

// Fails with the exception that is being handled; as on CUDA, the device is unusable afterwards.
void fail(HostDevice& device, const RunningOperation& operation) noexcept try {
  try {
    throw;
  } catch (const std::exception& error) {
    device.set_sticky_error(text::format("{} threw an exception: {}", operation.str(), error.what()));
  } catch (...) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    device.set_sticky_error(text::format("{} threw an exception that is not a std::exception, but of type {}",
                                         operation.str(), type != nullptr ? text::demangle(type->name()) : "unknown"));
  }
} catch (...) {
  device.set_sticky_error("an operation threw an exception, and there was no memory for its description");
}

std::byte* shared_memory(unsigned bytes) {
  if (bytes == 0) return nullptr;
  // Kernels run on any thread under the scheduler by steps, also while static objects are destroyed.
  struct SharedMemory {
    std::vector<std::byte> bytes;
  };
  std::vector<std::byte>& buffer = support::ThreadObject<SharedMemory>::get().bytes;
  if (buffer.size() < bytes + 16U) buffer.resize(bytes + 16U);
  void* start = buffer.data();
  std::size_t space = buffer.size();
  return static_cast<std::byte*>(std::align(16, bytes, start, space));
}

void fill(const MemsetNodeParams& params) {
  if (params.element_bytes == 1) {
    std::memset(params.destination, static_cast<int>(params.value & 0xFFU), params.count);
    return;
  }
  auto* out = static_cast<std::byte*>(params.destination);
  for (std::size_t i = 0; i < params.count; ++i, out += params.element_bytes)
    std::memcpy(out, &params.value, params.element_bytes);  // little-endian: the low bytes come first
}

}  // namespace

KernelWork::KernelWork(const KernelNodeParams& params)
    : kernel_(reinterpret_cast<const KernelRecord*>(params.function)),
      config_(params.config),
      arguments_(std::make_shared<Arguments>()) {
  arguments_->block.resize(kernel_->params_bytes);
  arguments_->each.resize(kernel_->params.size() + 1);
  for (std::size_t i = 0; i < kernel_->params.size(); ++i) {
    arguments_->each[i] = arguments_->block.data() + kernel_->params[i].offset;
    std::memcpy(arguments_->each[i], params.params[i], kernel_->params[i].size);
  }
}

KernelNodeParams KernelWork::params() const {
  KernelNodeParams params;
  params.function = reinterpret_cast<FunctionHandle>(const_cast<KernelRecord*>(kernel_));
  params.config = config_;
  params.params = arguments_->each.data();
  return params;
}

void KernelWork::run() const {
  void* const* const arguments = arguments_->each.data();
  HostLaunch launch;
  launch.grid = config_.grid;
  launch.block = config_.block;
  launch.shared_bytes = config_.shared_bytes;
  launch.shared = shared_memory(config_.shared_bytes);
  const std::uint64_t blocks = std::uint64_t{config_.grid.x} * config_.grid.y * config_.grid.z;
  if (launch.shared == nullptr) {
    launch.last_block = blocks;
    kernel_->host_entry(launch, arguments);
    return;
  }
  for (std::uint64_t b = 0; b < blocks; ++b) {
    std::memset(launch.shared, shared_garbage, launch.shared_bytes);
    launch.first_block = b;
    launch.last_block = b + 1;
    kernel_->host_entry(launch, arguments);
  }
}

Work make_work(const NodeParams& params) {
  return std::visit(Overloaded{
                        [](const KernelNodeParams& p) -> Work { return KernelWork(p); },
                        [](const auto& p) -> Work {
                          if constexpr (std::is_constructible_v<Work, decltype(p)>)
                            return p;
                          else
                            return EmptyNodeParams{};
                        },
                    },
                    params);
}

NodeParams params_of(const Work& work) {
  return std::visit(Overloaded{
                        [](const KernelWork& w) -> NodeParams { return w.params(); },
                        [](const StagedCopy& w) -> NodeParams {
                          return MemcpyNodeParams{w.destination, w.bytes.data(), w.bytes.size()};
                        },
                        [](const GraphAllocation& w) -> NodeParams {
                          return MemoryAllocateNodeParams{w.memory->bytes(), w.memory->address()};
                        },
                        [](const GraphFree& w) -> NodeParams { return MemoryFreeNodeParams{w.memory->address()}; },
                        [](const auto& w) -> NodeParams { return w; },
                    },
                    work);
}

void execute(HostDevice& device, const Work& work, const OperationPlace& place) noexcept {
  const ExecutingScope executing;
  const RunningOperation operation(device, work, place);
  const AccessToAllMemory access(device.runtime());
  try {
    if (access.refused())
      throw Error(
          "the system did not make the memory of the device accessible; raise the limits of the process (ulimit -d), "
          "or do not set HostDeviceOptions::protect");
    std::visit(Overloaded{
                   [](const KernelWork& w) { w.run(); },
                   [](const MemcpyNodeParams& w) { std::memmove(w.destination, w.source, w.bytes); },
                   [](const MemsetNodeParams& w) { fill(w); },
                   [](const HostNodeParams& w) { w.function(w.data); },
                   [](const StagedCopy& w) { std::memcpy(w.destination, w.bytes.data(), w.bytes.size()); },
                   [&](const MemoryFreeNodeParams& w) { (void)device.memory().free(w.address); },
                   [](const GraphAllocation& w) { w.memory->poison(); },
                   [](const GraphFree& w) { w.memory->poison(); },
                   [](const auto&) {},
               },
               work);
  } catch (...) {
    fail(device, operation);
  }
}

}  // namespace reprise::backend::host
