// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <optional>
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
  using element_type = T;
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

/// An input of GraphCache::run_padded() that is not filled up with zeros, made by padded_with() or not_padded(). Holds
/// a view.
template <class T>
class PaddedInput {
 public:
  using element_type = T;
  using value_type = std::remove_const_t<T>;
  static_assert(std::is_trivially_copyable_v<value_type> && sizeof(T) <= 8 && std::has_single_bit(sizeof(T)),
                "a value that fills up rows has 1, 2, 4 or 8 bytes");

  /// \param input the rows, or the whole input if it has none.
  /// \param value of the rows behind the true length; nullopt: the input has no rows, and the body gets it as it is.
  PaddedInput(DeviceView<T> input, std::optional<value_type> value) noexcept : input_(input), value_(value) {}
  const DeviceView<T>& input() const noexcept { return input_; }
  const std::optional<value_type>& value() const noexcept { return value_; }

 private:
  DeviceView<T> input_;
  std::optional<value_type> value_;
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
template <class T>
struct InputOf<PaddedInput<T>> {
  using type = PaddedInput<T>;
};

/// The view of an input.
template <class T>
auto view_of(const T& input) {
  return typename InputOf<T>::type(input);
}

}  // namespace cache_detail

/// An input that the body changes: passed to inputs().
template <class T>
DeviceView<T> inout(Buffer<T>& buffer) noexcept {
  return {buffer.data(), buffer.size()};
}

/// An input of GraphCache::run_padded() whose rows behind the true length have this value, not zeros: an index that the
/// body leaves out, for example. Takes what inputs() takes.
template <class Memory>
auto padded_with(const Memory& input, typename decltype(cache_detail::view_of(input))::value_type value) {
  using View = decltype(cache_detail::view_of(input));
  return PaddedInput<typename View::element_type>(cache_detail::view_of(input), value);
}

/// An input of GraphCache::run_padded() without rows, such as the true length, or weights: the body gets it as it is,
/// and it has the same size in all calls of a key.
template <class Memory>
auto not_padded(const Memory& input) {
  using View = decltype(cache_detail::view_of(input));
  return PaddedInput<typename View::element_type>(cache_detail::view_of(input), std::nullopt);
}

/// The inputs of a call of a GraphCache, for its body: a Buffer as memory that is only read, `inout(buffer)` as memory
/// that is changed, a CacheResult of another call, a DeviceView as it is; for run_padded() also padded_with() and
/// not_padded(). They must live until the work that was
/// submitted with them has completed.
/// \throws UsageError for a CacheResult that a later call of its key has overwritten.
template <class... Memory>
auto inputs(const Memory&... memory) {
  return std::tuple<typename cache_detail::InputOf<Memory>::type...>(memory...);
}

}  // namespace reprise
