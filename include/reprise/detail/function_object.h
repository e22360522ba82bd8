// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

/// \file
/// Functions of users in memory that can be searched for addresses. For internal use.

namespace reprise::function_detail {

/// True for an empty std::function or a null function pointer. A lambda without captures is never empty, although it
/// converts to bool, by way of a function pointer.
template <class F>
bool is_empty(const F& function) {
  if constexpr (std::is_pointer_v<F> || requires { function.operator bool(); })
    return !static_cast<bool>(function);
  else
    return false;
}

/// A function of a type, in memory whose other bytes look like no address.
template <class F>
class FunctionObject {
 public:
  template <class From>
  explicit FunctionObject(From&& from) {
    std::memset(storage_, 0x5a, sizeof(storage_));
    function_ = ::new (static_cast<void*>(storage_)) F(std::forward<From>(from));
    // A copy as a whole takes along what stood in the padding of the original, such as addresses of the stack.
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    if constexpr (std::is_trivially_copyable_v<F>) __builtin_clear_padding(function_);
#endif
#endif
  }
  ~FunctionObject() {
    function_->~F();
  }
  FunctionObject(const FunctionObject&) = delete;
  FunctionObject& operator=(const FunctionObject&) = delete;

  F& get() noexcept {
    return *function_;
  }
  std::span<const std::byte> bytes() const noexcept {
    return storage_;
  }

 private:
  alignas(F) std::byte storage_[sizeof(F)];
  F* function_;
};

}  // namespace reprise::function_detail
