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

/// Calls `f` with each tensor of a structure, as `at::Tensor&`, always in the same order: a tensor, an undefined one
/// too; those of optionals, vectors, arrays, tuples, pairs and maps, nested to any depth.
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
template <class F>
void for_each_tensor(at::Tensor& tensor, F&& f);
/// For values, which have no tensors.
template <CapturedValue T, class F>
void for_each_tensor(T& value, F&& f);
/// For optionals.
template <class T, class F>
void for_each_tensor(std::optional<T>& optional, F&& f);
/// For vectors, in order.
template <class T, class F>
requires(!std::is_same_v<T, bool>) void for_each_tensor(std::vector<T>& vector, F&& f);
/// For arrays, in order.
template <class T, std::size_t N, class F>
void for_each_tensor(std::array<T, N>& array, F&& f);
/// For maps, in the order of the keys.
template <class Key, class T, class Compare, class F>
void for_each_tensor(std::map<Key, T, Compare>& map, F&& f);
/// For pairs, in order.
template <class A, class B, class F>
void for_each_tensor(std::pair<A, B>& pair, F&& f);
/// For tuples, in order.
template <class... Ts, class F>
void for_each_tensor(std::tuple<Ts...>& tuple, F&& f);

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

// The shape of a structure: the steps of a walk over it, in order.
struct StructureShape {
  struct Step {
    enum class Kind : unsigned char { tensor, value, size, key, end_of_element } kind;
    std::string_view container = {};        // of a size; a literal
    std::size_t size = 0;                   // of that container
    const std::type_info* type = nullptr;   // of a value or key
    std::shared_ptr<const void> copy = {};  // of it
  };
  std::vector<Step> steps;
  std::size_t tensors = 0;
};

// Writes the shape of a structure down.
class ShapeRecorder {
 public:
  void operator()(at::Tensor& /*tensor*/) {
    shape.steps.push_back({StructureShape::Step::Kind::tensor});
    ++shape.tensors;
  }
  template <class T>
  void value(const T& value) {
    copy(StructureShape::Step::Kind::value, value);
  }
  void size(std::string_view kind, std::size_t size) {
    shape.steps.push_back({StructureShape::Step::Kind::size, kind, size});
  }
  template <class Key, class Compare>
  void key(const Key& key, const Compare& /*compare*/) {
    copy(StructureShape::Step::Kind::key, key);
  }
  void end_of_element() { shape.steps.push_back({StructureShape::Step::Kind::end_of_element}); }

  StructureShape shape;

 private:
  template <class T>
  void copy(StructureShape::Step::Kind kind, const T& value) {
    shape.steps.push_back({kind, {}, 0, &typeid(T), std::make_shared<const T>(value)});
  }
};

// Takes the tensors out of a structure, and compares its shape and values with those of another one on the way.
// Allocates the row of tensors alone.
class MatchingCollector {
 public:
  explicit MatchingCollector(const StructureShape& expected)
      : next_(expected.steps.data()), end_(next_ + expected.steps.size()) {
    tensors.reserve(expected.tensors);
  }
  void operator()(at::Tensor& tensor) {
    tensors.push_back(tensor);
    step(Kind::tensor, [](const Step&) { return true; });
  }
  template <class T>
  void value(const T& value) {
    step(Kind::value, [&](const Step& expected) {
      return *expected.type == typeid(T) && same_value(*static_cast<const T*>(expected.copy.get()), value);
    });
  }
  void size(std::string_view kind, std::size_t size) {
    step(Kind::size, [&](const Step& expected) { return expected.size == size && expected.container == kind; });
  }
  template <class Key, class Compare>
  void key(const Key& key, const Compare& compare) {
    step(Kind::key, [&](const Step& expected) {
      if (*expected.type != typeid(Key)) return false;
      const Key& known = *static_cast<const Key*>(expected.copy.get());
      return !compare(known, key) && !compare(key, known);
    });
  }
  void end_of_element() {
    step(Kind::end_of_element, [](const Step&) { return true; });
  }

  // After the walk.
  bool matches() const { return matches_ && next_ == end_; }

  std::vector<at::Tensor> tensors;

 private:
  using Step = StructureShape::Step;
  using Kind = Step::Kind;
  template <class Same>
  void step(Kind kind, const Same& same) {
    matches_ = matches_ && next_ != end_ && next_->kind == kind && same(*next_);
    if (matches_) ++next_;
  }

  const Step* next_;
  const Step* end_;
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

// Writes a structure down, for errors: "map[2] x: tensor y: vector[1] 0.5"; "|" is between the elements of a tuple.
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
  template <class Key, class Compare>
  void key(const Key& key, const Compare& /*compare*/) {
    if constexpr (std::is_convertible_v<const Key&, std::string_view>)
      add(std::string(std::string_view(key)).append(":"));
    else if constexpr (std::is_arithmetic_v<Key>)
      add(std::to_string(key).append(":"));
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

template <class F, class Key, class Compare>
void note_key(F& f, const Key& key, const Compare& compare) {
  if constexpr (requires { f.key(key, compare); }) f.key(key, compare);
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

template <class F>
void for_each_tensor(at::Tensor& tensor, F&& f) {
  f(tensor);
}

template <class T, class F>
void for_each_tensor(std::optional<T>& optional, F&& f) {
  detail::note_size(f, "optional", optional.has_value() ? 1 : 0);
  if (optional) for_each_tensor(*optional, f);
}

template <CapturedValue T, class F>
void for_each_tensor(T& value, F&& f) {
  if constexpr (requires { f.value(value); }) f.value(value);
}

template <class T, class F>
requires(!std::is_same_v<T, bool>) void for_each_tensor(std::vector<T>& vector, F&& f) {
  detail::note_size(f, "vector", vector.size());
  for (T& each : vector) detail::visit_element(each, f);
}

template <class T, std::size_t N, class F>
void for_each_tensor(std::array<T, N>& array, F&& f) {
  for (T& each : array) detail::visit_element(each, f);
}

template <class Key, class T, class Compare, class F>
void for_each_tensor(std::map<Key, T, Compare>& map, F&& f) {
  detail::note_size(f, "map", map.size());
  for (auto& [key, value] : map) {
    detail::note_key(f, key, map.key_comp());
    detail::visit_element(value, f);
  }
}

template <class A, class B, class F>
void for_each_tensor(std::pair<A, B>& pair, F&& f) {
  detail::visit_element(pair.first, f);
  detail::visit_element(pair.second, f);
}

template <class... Ts, class F>
void for_each_tensor(std::tuple<Ts...>& tuple, F&& f) {
  std::apply([&](Ts&... each) { (detail::visit_element(each, f), ...); }, tuple);
}

/// A type whose tensors for_each_tensor() finds.
template <class T>
concept TensorStructure = std::is_copy_constructible_v<T> && requires(T& value, detail::TensorCollector& visitor) {
  for_each_tensor(value, visitor);
};

}  // namespace reprise::libtorch
