// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

/// \file
/// Parameters: values and addresses of a captured graph that can be set before a replay.

namespace reprise {

class ParameterValue;

/// A value that replays of a graph use, and that CUDAGraph::set() changes for one graph:
///
///     reprise::Parameter<float> factor(0.5f);
///     auto g = reprise::capture([&] { reprise::launch(n, Scale{}, factor, x.data(), n); });
///     g.set(factor, 0.25f);
///     g.replay();
///
/// Passed to launch(), it stands for its initial value; in a capture of this library it also marks the argument. One
/// object can be passed to any number of launches, and be captured in several graphs, each of which has a value of its
/// own. Without this object, CUDAGraph::parameter() finds the uses of an address.
///
/// Copies stand for the same parameter. Immutable: thread-safe.
template <class T>
class Parameter {
  static_assert(std::is_trivially_copyable_v<T> && std::is_object_v<T> && !std::is_const_v<T>,
                "a parameter is copied as bytes");

 public:
  explicit Parameter(const T& initial) : initial_(std::make_shared<const T>(initial)) {}
  Parameter(const Parameter&) = default;             // moves copy: there is no empty parameter
  Parameter& operator=(const Parameter&) = default;  // stands for the other parameter from then on

  /// Value that launches outside of captures pass, and with which a capture begins.
  const T& initial() const noexcept { return *initial_; }
  /// The same for all copies, and for no other parameter that lives. For internal use.
  std::shared_ptr<const void> key() const noexcept { return initial_; }

 private:
  std::shared_ptr<const T> initial_;
};

/// A parameter and a value for it, for CUDAGraph::set() of several at once. Holds a reference to the parameter.
class ParameterValue {
 public:
  static constexpr std::size_t most_bytes = 64;  ///< of a value

  template <class T>
  ParameterValue(const Parameter<T>& parameter, const std::type_identity_t<T>& value)
      : key_(&parameter.initial()), bytes_(sizeof(T)) {
    static_assert(sizeof(T) <= most_bytes, "a value of a parameter has at most 64 bytes");
    std::memcpy(value_.data(), &value, sizeof(T));
  }

  const void* key() const noexcept { return key_; }             ///< for internal use
  const void* value() const noexcept { return value_.data(); }  ///< for internal use
  std::size_t bytes() const noexcept { return bytes_; }         ///< of the value

 private:
  const void* key_;
  std::size_t bytes_;
  std::array<std::byte, most_bytes> value_;  // the first `bytes_`; not initialised as a whole
};

namespace parameter_detail {

/// An argument of a launch that stands for a parameter. For internal use.
struct MarkedArgument {
  std::size_t index = 0;
  std::shared_ptr<const void> key;
  const void* initial = nullptr;
  std::size_t bytes = 0;
};

template <class Argument>
struct Unmarked {
  static constexpr bool is_marked = false;
};
template <class T>
struct Unmarked<Parameter<T>> {
  using Value = T;
  static constexpr bool is_marked = true;
};

/// True if an argument of this type is a Parameter.
template <class Argument>
inline constexpr bool is_marked = Unmarked<std::remove_cvref_t<Argument>>::is_marked;

/// True if a Parameter<T> can stand for a kernel's parameter: it has the same type, or is a pointer that gains const.
template <class T, class Param>
constexpr bool fits() {
  if constexpr (std::is_pointer_v<T> && std::is_pointer_v<Param>)
    return std::is_convertible_v<T, Param> &&
           std::is_same_v<std::remove_cv_t<std::remove_pointer_t<T>>, std::remove_cv_t<std::remove_pointer_t<Param>>>;
  else
    return std::is_same_v<T, std::remove_cv_t<Param>>;
}

}  // namespace parameter_detail
}  // namespace reprise
