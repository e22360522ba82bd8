// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reprise::inspect {

/// A range of addresses; empty if both are equal.
struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  /// True if one of `bytes` bytes from `address` on lies in it.
  bool overlaps(std::uintptr_t address, std::size_t bytes) const noexcept {
    return bytes != 0 && address < end && (address >= begin || bytes > begin - address);
  }
};

/// The part of the calling thread's stack that no function uses which is outside of the frame at `frame`: what lies in
/// it belongs to calls that have returned, or to calls made from that frame. Empty if the frame does not lie on the
/// thread's own stack, as in a fiber, or the system does not know that. The bounds of the stack are queried once for
/// each thread.
/// \param frame an address in the frame, as `__builtin_frame_address(0)` returns it.
AddressRange ended_stack(const void* frame) noexcept;

/// Returns the place in the stack of a local variable of the calling thread: another address if AddressSanitizer keeps
/// it elsewhere, else the same one.
std::uintptr_t address_in_stack(std::uintptr_t address) noexcept;

/// An address of a part of a stack among the bytes of an object.
struct StackReference {
  const void* address = nullptr;
  std::size_t offset = 0;  ///< in the object
};

/// The first aligned word of an object that is an address in `part`; nullopt if there is none.
std::optional<StackReference> find_reference(std::span<const std::byte> object, const AddressRange& part) noexcept;

/// True in a program with AddressSanitizer, which knows more: freed memory, and locals that it keeps elsewhere.
bool has_address_sanitizer() noexcept;
/// True if AddressSanitizer knows that one of the bytes must not be used now. False without it.
bool is_poisoned(const void* address, std::size_t bytes) noexcept;

}  // namespace reprise::inspect
