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

namespace reprise::backend::host {
namespace {

std::array<std::atomic<const DeviceMemory*>, 32> watched;  // 16 of the process, 16 of simulators
struct sigaction previous_action;

// In a signal handler: must not allocate or lock.
void put(const char* text) noexcept {
  (void)!write(STDERR_FILENO, text, std::strlen(text));
}

void put_number(std::uintptr_t value, unsigned base) noexcept {
  char digits[2 + 64 + 1];
  char* end = digits + sizeof digits - 1;
  *end = '\0';
  do {
    *--end = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  if (base == 16) {
    *--end = 'x';
    *--end = '0';
  }
  put(end);
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

void on_fault(int signal, siginfo_t* info, void* context) {
  for (const auto& slot : watched) {
    const DeviceMemory* memory = slot.load(std::memory_order_acquire);
    if (memory == nullptr || !memory->contains(info->si_addr)) continue;
    bool known = false;
    const bool write = is_write(context, &known);
    memory->describe_fault(info->si_addr, write, known);
    void* frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    break;
  }
  // The instruction faults again on return, and reaches the previous handler.
  sigaction(signal, &previous_action, nullptr);
}

}  // namespace

void watch_faults(const DeviceMemory& memory) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    void* frame[1];
    backtrace(frame, 1);  // loads libgcc now, not in the handler
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_action);
  });
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

void DeviceMemory::describe_fault(const void* address, bool write, bool write_known) const noexcept {
  put("reprise: the host ");
  put(!write_known ? "touched" : write ? "wrote to" : "read from");
  put(" device memory at ");
  put_number(reinterpret_cast<std::uintptr_t>(address), 16);
  put(" outside of any operation of the device.\n");
  if (mutex_.try_lock()) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - base_);
    auto block = asked_.upper_bound(offset);
    if (block != asked_.begin() && offset - std::prev(block)->first < std::prev(block)->second.bytes) {
      --block;
      put("  It is byte ");
      put_number(offset - block->first, 10);
      put(" of the block of ");
      put_number(block->second.bytes, 10);
      put(" bytes at ");
      put_number(reinterpret_cast<std::uintptr_t>(base_ + block->first), 16);
      put(".\n");
    } else {
      put("  No block is allocated there: it was freed, or never allocated.\n");
    }
    mutex_.unlock();
  }
  put("  Copy device memory to the host with copy_async() and wait for the stream. The stack of the access:\n");
}

}  // namespace reprise::backend::host
