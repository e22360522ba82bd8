// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "reprise/memory.h"

/// \file
/// Views of arrays in device memory, and the inputs of a call of a GraphCache.

namespace reprise {

/// A view of an array in device memory: address and number of values. Owns nothing.
template <class T>
class DeviceView {
 public:
  using value_type = std::remove_const_t<T>;

  DeviceView() = default;  ///< of nothing
  DeviceView(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  /// All of a buffer. Valid until the buffer is reset, moved or destroyed.
  DeviceView(const Buffer<value_type>& buffer) noexcept  // NOLINT(google-explicit-constructor): as std::span
      : data_(buffer.data()), size_(buffer.size()) {}
  /// The same values, only to be read.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_const_v<U>) DeviceView(const DeviceView<U>& other)
  noexcept  // NOLINT(google-explicit-constructor): as std::span
      : data_(other.data()), size_(other.size()) {}

  T* data() const noexcept { return data_; }  ///< the device address
  std::size_t size() const noexcept { return size_; }
  std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  bool empty() const noexcept { return size_ == 0; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace cache_detail {

template <class T>
struct InputOf;
template <class T>
struct InputOf<Buffer<T>> {
  using type = DeviceView<const T>;
};
template <class T>
struct InputOf<DeviceView<T>> {
  using type = DeviceView<T>;
};

}  // namespace cache_detail

/// An input that the body changes: passed to inputs().
template <class T>
DeviceView<T> inout(Buffer<T>& buffer) noexcept {
  return {buffer.data(), buffer.size()};
}

/// The inputs of a call of a GraphCache, for its body: a Buffer as memory that is only read, `inout(buffer)` as memory
/// that is changed, a CacheResult of another call, a DeviceView as it is. They must live until the work that was
/// submitted with them has completed.
/// \throws UsageError for a CacheResult that a later call of its key has overwritten.
template <class... Memory>
auto inputs(const Memory&... memory) {
  return std::tuple<typename cache_detail::InputOf<Memory>::type...>(memory...);
}

}  // namespace reprise
