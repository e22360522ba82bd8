// SPDX-License-Identifier: Apache-2.0
#include "backend/host/memory/fault_handler.h"

#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "backend/host/memory/device_memory.h"
#include "backend/host/run/running.h"

namespace reprise::backend::host {
namespace {

std::array<std::atomic<const DeviceMemory*>, 32> watched;  // 16 of the process, 16 of simulators

struct Handled {
  int signal;
  struct sigaction previous;
};
Handled handled[] = {{SIGSEGV, {}}, {SIGBUS, {}}};

// In a signal handler: must not allocate or lock.
void put(const char* text) noexcept {
  (void)!write(STDERR_FILENO, text, std::strlen(text));
}

void put_piece(void* /*sink*/, const char* piece) noexcept {
  put(piece);
}

void put_number(std::uintptr_t value, int base) noexcept {
  put(Digits(value, base).text);
}

bool is_write([[maybe_unused]] const void* context, bool* known) noexcept {
#if defined(__x86_64__)
  *known = true;
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  *known = false;
  return false;
#endif
}

void put_stack() noexcept {
  put("  The stack of the access:\n");
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

const DeviceMemory* memory_of(const void* address) noexcept {
  for (const auto& slot : watched) {
    const DeviceMemory* const memory = slot.load(std::memory_order_acquire);
    if (memory != nullptr && memory->contains(address)) return memory;
  }
  return nullptr;
}

void explain(const RunningOperation* operation, const siginfo_t& info, const void* context) noexcept {
  const DeviceMemory* const memory = memory_of(info.si_addr);
  if (operation == nullptr && memory == nullptr) return;
  bool known = false;
  const bool write = is_write(context, &known);
  put("reprise: ");
  if (operation != nullptr)
    operation->describe(&put_piece, nullptr);
  else
    put("the host");
  put(!known ? " touched" : write ? " wrote to" : " read from");
  if (info.si_code == SI_KERNEL) {
    put(" an address that no memory can have.\n");  // the processor does not name it
  } else {
    put(memory != nullptr ? " device memory at " : " address ");
    put_number(reinterpret_cast<std::uintptr_t>(info.si_addr), 16);
    put(operation == nullptr ? " outside of any operation of the device.\n" : ", which it cannot access.\n");
  }
  if (memory != nullptr) memory->describe_fault(info.si_addr);
  if (operation == nullptr) put("  Copy device memory to the host with copy_async() and wait for the stream.\n");
  put_stack();
}

void on_fault(int signal, siginfo_t* info, void* context) {
  // By kill() and raise(), too.
  const bool is_fault = info->si_code > 0;
  if (is_fault) explain(RunningOperation::current(), *info, context);
  // The instruction faults again on return, and reaches the previous handler.
  for (const Handled& each : handled)
    if (each.signal == signal) sigaction(signal, &each.previous, nullptr);
  if (!is_fault) ::raise(signal);
}

}  // namespace

void explain_faults() {
  static std::once_flag installed;
  std::call_once(installed, [] {
    void* frame[1];
    backtrace(frame, 1);  // loads libgcc now, not in the handler
    for (Handled& each : handled) {
      struct sigaction action = {};
      action.sa_sigaction = on_fault;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      sigaction(each.signal, &action, &each.previous);
    }
  });
}

void watch_faults(const DeviceMemory& memory) {
  explain_faults();
  for (auto& slot : watched) {
    const DeviceMemory* expected = nullptr;
    if (slot.compare_exchange_strong(expected, &memory)) return;
  }
}

void forget_faults(const DeviceMemory& memory) noexcept {
  for (auto& slot : watched) {
    const DeviceMemory* expected = &memory;
    slot.compare_exchange_strong(expected, nullptr);
  }
}

void DeviceMemory::describe_fault(const void* address) const noexcept {
  if (!mutex_.try_lock()) return;
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_);
  auto block = blocks_.upper_bound(offset);
  if (block != blocks_.begin() && offset - std::prev(block)->first < std::prev(block)->second.requested) {
    --block;
    put("  It is byte ");
    put_number(offset - block->first, 10);
    put(" of the block of ");
    put_number(block->second.requested, 10);
    put(" bytes at ");
    put_number(reinterpret_cast<std::uintptr_t>(base_ + block->first), 16);
    put(".\n");
  } else {
    put("  No block is allocated there: it was freed, or never allocated.\n");
  }
  mutex_.unlock();
}

}  // namespace reprise::backend::host
