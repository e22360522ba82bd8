// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/running.h"

#include <charconv>
#include <iterator>

#include "backend/host/host_device.h"

namespace reprise::backend::host {
namespace {

// The fault handler reads it: its first use on a thread must not allocate, also in a library that was loaded later.
[[gnu::tls_model("initial-exec")]] constinit thread_local const RunningOperation* running = nullptr;

const char* name_of(const Work& work) noexcept {
  const auto* const kernel = std::get_if<KernelWork>(&work);
  return kernel != nullptr ? kernel->kernel().name.c_str() : "";
}

}  // namespace

const char* kind_of(const Work& work) noexcept {
  if (std::holds_alternative<KernelWork>(work)) return "kernel ";
  if (std::holds_alternative<MemcpyNodeParams>(work) || std::holds_alternative<StagedCopy>(work)) return "memcpy";
  if (std::holds_alternative<MemsetNodeParams>(work)) return "memset";
  if (std::holds_alternative<HostNodeParams>(work)) return "a host function";
  if (std::holds_alternative<GraphAllocation>(work)) return "the allocation of graph memory";
  if (std::holds_alternative<GraphFree>(work)) return "the free of graph memory";
  if (std::holds_alternative<MemoryFreeNodeParams>(work)) return "the free of stream-ordered memory";
  return "an operation";
}

RunningOperation::RunningOperation(const HostDevice& device, const Work& work, const OperationPlace& place) noexcept
    : device_(device), kind_(kind_of(work)), name_(name_of(work)), place_(place), outer_(running) {
  running = this;
}

RunningOperation::~RunningOperation() {
  running = outer_;
}

const RunningOperation* RunningOperation::current() noexcept {
  return running;
}

void RunningOperation::describe(void (*put)(void* sink, const char* piece), void* sink) const {
  put(sink, kind_);
  put(sink, name_);
  if (place_.node != nullptr) {
    put(sink, " (node ");
    put(sink, place_.node);
    put(sink, " of a graph)");
  }
  const auto handle = reinterpret_cast<std::uintptr_t>(place_.stream);
  put(sink, handle <= 1   ? " on the legacy default stream"
            : handle == 2 ? " on a per-thread default stream"
                          : " on stream ");
  if (handle > 2) put(sink, Digits(handle, 16).text);
  put(sink, " of ");
  put(sink, device_.name().c_str());
}

std::string RunningOperation::str() const {
  std::string text;
  describe([](void* sink, const char* piece) { *static_cast<std::string*>(sink) += piece; }, &text);
  return text;
}

Digits::Digits(std::uintptr_t value, int base) noexcept : text{"0x"} {
  char* const digits = base == 16 ? text + 2 : text;
  *std::to_chars(digits, std::end(text), value, base).ptr = '\0';
}

}  // namespace reprise::backend::host
