// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// for_each_tensor: how this library finds the tensors in what a function takes and returns.

namespace reprise::libtorch {

/// Types of arguments besides tensors: numbers, `bool`, enums, `at::Scalar`, `c10::Device`, `std::string`.
template <class T>
concept CapturedValue =
    (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T> ||
    std::is_same_v<T, c10::Scalar> || std::is_same_v<T, c10::Device> || std::is_same_v<T, std::string>;

namespace detail {

template <class T, template <class...> class Template>
constexpr bool is_a = false;
template <class... Ts, template <class...> class Template>
constexpr bool is_a<Template<Ts...>, Template> = true;

// Tuples, pairs and arrays.
template <class T>
constexpr bool is_row = is_a<T, std::tuple> || is_a<T, std::pair>;
template <class T, std::size_t N>
constexpr bool is_row<std::array<T, N>> = true;

// Structures that are not a user's. Keys of maps are compared as values.
template <class T>
concept OwnStructure = std::is_same_v<T, at::Tensor> || CapturedValue<T> || is_row<T> || is_a<T, std::optional> ||
                       (is_a<T, std::vector> && !std::is_same_v<T, std::vector<bool>>) ||
                       (is_a<T, std::map> && CapturedValue<typename T::key_type>);

}  // namespace detail

/// Calls `f` with each tensor of a structure, as `at::Tensor&`, always in the same order: a tensor, an undefined one
/// too; those of optionals, vectors, arrays, tuples, pairs and maps with keys of a CapturedValue, nested to any depth.
///
/// The customisation point for user types: a function of this name in the namespace of the type, found by
/// argument-dependent lookup. A graph does the same at each replay: what it depends on besides tensors is passed on as
/// well, so that a call with another value is refused.
///
///     namespace mine {
///     struct Batch { torch::Tensor x; std::vector<torch::Tensor> masks; bool causal; };
///     template <class F>
///     void for_each_tensor(Batch& batch, F&& f) {
///       for_each_tensor(batch.x, f);
///       for_each_tensor(batch.masks, f);
///       for_each_tensor(batch.causal, f);
///     }
///     }
template <detail::OwnStructure T, class F>
void for_each_tensor(T& structure, F&& f);

namespace detail {

using reprise::libtorch::for_each_tensor;  // for users' overloads, called with the visitors below

// True if a graph that was captured with one would be right for the other: -0.0 and 0.0 differ, NaN and NaN do not.
template <CapturedValue T>
bool same_value(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>)
    return (a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b));
  else
    return a == b;
}
REPRISE_EXPORT bool same_value(const c10::Scalar& a, const c10::Scalar& b);

REPRISE_EXPORT std::string text_of(const c10::Scalar& value);
REPRISE_EXPORT std::string text_of(float value);
REPRISE_EXPORT std::string text_of(const std::string& value);
REPRISE_EXPORT std::string text_of(c10::Device value);
REPRISE_EXPORT std::string text_of(c10::ScalarType value);

// Values that differ have different texts.
template <CapturedValue T>
std::string value_text(const T& value) {
  if constexpr (std::is_enum_v<T> && !std::is_same_v<T, c10::ScalarType>)
    return value_text(static_cast<std::underlying_type_t<T>>(value));
  else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return text_of(
        c10::Scalar(static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value)));
  else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double>)
    return text_of(c10::Scalar(value));
  else
    return text_of(value);
}

// Takes the tensors out of a structure.
class TensorCollector {
 public:
  void operator()(at::Tensor& tensor) { tensors.push_back(tensor); }

  std::vector<at::Tensor> tensors;
};

// A step of a walk over a structure.
struct StructureStep {
  static constexpr std::int64_t tensor = -1, value = -2, end_of_element = -3;  // else the size of a container
  std::int64_t code;
  std::string_view container = {};        // of a size; a literal
  const std::type_info* type = nullptr;   // of a value
  std::shared_ptr<const void> copy = {};  // of it
};

// The steps of a walk over it, in order.
using StructureShape = std::vector<StructureStep>;

// Takes the tensors out of a structure, and writes its shape down.
class ShapeRecorder {
 public:
  void operator()(at::Tensor& tensor) {
    tensors.push_back(tensor);
    shape.push_back({StructureStep::tensor});
  }
  template <class T>
  void value(const T& value) {
    shape.push_back({StructureStep::value, {}, &typeid(T), std::make_shared<const T>(value)});
  }
  void size(std::string_view container, std::size_t size) {
    shape.push_back({static_cast<std::int64_t>(size), container});
  }
  void end_of_element() { shape.push_back({StructureStep::end_of_element}); }

  std::vector<at::Tensor> tensors;
  StructureShape shape;
};

// Takes the tensors out of a structure, and compares its shape and values with those of another one on the way.
// Allocates the row of tensors alone.
class MatchingCollector {
 public:
  explicit MatchingCollector(const StructureShape& expected) : next_(expected.data()), end_(next_ + expected.size()) {
    tensors.reserve(expected.size());
  }
  void operator()(at::Tensor& tensor) {
    tensors.push_back(tensor);
    next(StructureStep::tensor);
  }
  template <class T>
  void value(const T& value) {
    if (const StructureStep* const expected = next(StructureStep::value))
      matches_ = *expected->type == typeid(T) && same_value(*static_cast<const T*>(expected->copy.get()), value);
  }
  void size(std::string_view container, std::size_t size) {
    if (const StructureStep* const expected = next(static_cast<std::int64_t>(size)))
      matches_ = expected->container == container;
  }
  void end_of_element() { next(StructureStep::end_of_element); }

  // After the walk.
  bool matches() const { return matches_ && next_ == end_; }

  std::vector<at::Tensor> tensors;

 private:
  // The expected step; null if that is another one, or one before was.
  const StructureStep* next(std::int64_t code) {
    matches_ = matches_ && next_ != end_ && next_->code == code;
    return matches_ ? next_++ : nullptr;
  }

  const StructureStep* next_;
  const StructureStep* end_;
  bool matches_ = true;
};

// Puts tensors into a structure that has places for as many.
class TensorAssigner {
 public:
  explicit TensorAssigner(const std::vector<at::Tensor>& tensors) : next_(tensors.data()) {}
  void operator()(at::Tensor& tensor) { tensor = *next_++; }

 private:
  const at::Tensor* next_;
};

// Writes a structure down, for errors: "map[2] "x" tensor "y" vector[1] 0.5"; "|" is between the elements of a tuple.
class StructureText {
 public:
  void operator()(at::Tensor& /*tensor*/) { add("tensor"); }
  template <class T>
  void value(const T& value) {
    add(value_text(value));
  }
  void size(std::string_view kind, std::size_t size) {
    add(std::string(kind).append("[").append(std::to_string(size)).append("]"));
  }
  void end_of_element() { ended_ = true; }

  std::string text;

 private:
  void add(std::string_view word) {
    if (!text.empty()) text += std::exchange(ended_, false) ? " | " : " ";
    text += word;
  }

  bool ended_ = false;
};

// Adds a line if an argument differs from its sample in structure or values: "argument 1: expected 0.5, found 0.25".
template <class T>
void add_difference(std::vector<std::string>& lines, std::size_t argument, T& sample, T& found) {
  const auto text_of = [](T& structure) {
    StructureText text;
    for_each_tensor(structure, text);
    return text.text.empty() ? std::string("nothing") : text.text;
  };
  if (const std::string expected = text_of(sample), other = text_of(found); expected != other)
    lines.push_back("argument " + std::to_string(argument) + ": expected " + expected + ", found " + other);
}

template <class F>
void note_size(F& f, std::string_view kind, std::size_t size) {
  if constexpr (requires { f.size(kind, size); }) f.size(kind, size);
}

// Structures of users may have more or fewer tensors without a container that shows it: the ends of elements show which
// tensors are whose.
template <class T, class F>
void visit_element(T& element, F& f) {
  for_each_tensor(element, f);
  if constexpr (!std::is_same_v<T, at::Tensor> && !CapturedValue<T> && requires { f.end_of_element(); })
    f.end_of_element();
}

}  // namespace detail

template <detail::OwnStructure T, class F>
void for_each_tensor(T& structure, F&& f) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    f(structure);
  } else if constexpr (CapturedValue<T>) {
    if constexpr (requires { f.value(structure); }) f.value(structure);
  } else if constexpr (detail::is_a<T, std::optional>) {
    detail::note_size(f, "optional", structure.has_value() ? 1 : 0);
    if (structure) for_each_tensor(*structure, f);
  } else if constexpr (detail::is_a<T, std::vector>) {
    detail::note_size(f, "vector", structure.size());
    for (auto& each : structure) detail::visit_element(each, f);
  } else if constexpr (detail::is_a<T, std::map>) {
    detail::note_size(f, "map", structure.size());
    for (auto& each : structure) {
      if constexpr (requires { f.value(each.first); }) f.value(each.first);
      detail::visit_element(each.second, f);
    }
  } else {
    std::apply([&](auto&... each) { (detail::visit_element(each, f), ...); }, structure);
  }
}

/// A type whose tensors for_each_tensor() finds.
template <class T>
concept TensorStructure = std::is_copy_constructible_v<T> && requires(T& value, detail::TensorCollector& visitor) {
  for_each_tensor(value, visitor);
};

}  // namespace reprise::libtorch
