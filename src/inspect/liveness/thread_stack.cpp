// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/thread_stack.h"

#include <pthread.h>

#include <cstring>

// Function of the sanitizer's runtime; null without it.
extern "C" [[gnu::weak]] void* __asan_region_is_poisoned(void* begin, std::size_t bytes);  // NOLINT: its name

extern "C" [[gnu::weak]] void* __asan_get_current_fake_stack();  // NOLINT: likewise
extern "C" [[gnu::weak]] void* __asan_addr_is_in_fake_stack(void* stack, void* address, void** begin,
                                                            void** end);  // NOLINT: likewise

namespace reprise::inspect {
namespace {

AddressRange query_stack() noexcept {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* lowest = nullptr;
  std::size_t bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(lowest);
  return {begin, begin + bytes};
}

}  // namespace

// Stacks grow down on all processors that CUDA supports.
AddressRange ended_stack(const void* frame) noexcept {
  thread_local const AddressRange stack = query_stack();
  const auto address = reinterpret_cast<std::uintptr_t>(frame);
  if (address < stack.begin || address >= stack.end) return {};
  return {stack.begin, address};
}

std::uintptr_t address_in_stack(std::uintptr_t address) noexcept {
  if (!has_address_sanitizer()) return address;
  void* const stack = __asan_get_current_fake_stack();
  if (stack == nullptr) return address;
  // The address that the runtime kept is one in the function with which it began the frame, about 60 bytes below.
  constexpr std::uintptr_t of_runtime = 128;
  void* const below = __asan_addr_is_in_fake_stack(stack, reinterpret_cast<void*>(address), nullptr, nullptr);
  return below != nullptr ? reinterpret_cast<std::uintptr_t>(below) + of_runtime : address;
}

std::optional<StackReference> find_reference(std::span<const std::byte> object, const AddressRange& part) noexcept {
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= object.size(); at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, object.data() + at, sizeof(word));
    if (part.overlaps(address_in_stack(word), 1)) return StackReference{reinterpret_cast<const void*>(word), at};
  }
  return std::nullopt;
}

bool has_address_sanitizer() noexcept {
  return &__asan_region_is_poisoned != nullptr;
}

bool is_poisoned(const void* address, std::size_t bytes) noexcept {
  return has_address_sanitizer() && __asan_region_is_poisoned(const_cast<void*>(address), bytes) != nullptr;
}

}  // namespace reprise::inspect
