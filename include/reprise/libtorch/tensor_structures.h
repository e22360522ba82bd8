// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
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

#include "reprise/libtorch/install.h"

/// \file
/// for_each_tensor: how this library finds the tensors in what a function takes and returns.

namespace reprise::libtorch {

/// Calls `f` with each tensor of a structure, as `at::Tensor&`, always in the same order: a tensor, an undefined one
/// too; those of optionals, vectors, arrays, tuples, pairs and maps, nested to any depth.
///
/// The customisation point for user types: a function of this name in the namespace of the type, found by
/// argument-dependent lookup.
///
///     namespace mine {
///     struct Batch { torch::Tensor x; std::vector<torch::Tensor> masks; };
///     template <class F>
///     void for_each_tensor(Batch& batch, F&& f) {
///       for_each_tensor(batch.x, f);
///       for_each_tensor(batch.masks, f);
///     }
///     }
template <class F>
void for_each_tensor(at::Tensor& tensor, F&& f);
/// For optionals.
template <class T, class F>
void for_each_tensor(std::optional<T>& optional, F&& f);
/// For vectors, in order.
template <class T, class F>
void for_each_tensor(std::vector<T>& vector, F&& f);
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

// Takes the tensors out of a structure.
class TensorCollector {
 public:
  void operator()(at::Tensor& tensor) { tensors.push_back(tensor); }

  std::vector<at::Tensor> tensors;
};

// How a structure is built: what a walk over it comes by, in order.
struct StructureShape {
  struct Step {
    enum class Kind : unsigned char { tensor, size, key, end_of_element } kind;
    std::string_view container = {};           // of a size; a literal
    std::size_t size = 0;                      // of that container
    const std::type_info* key_type = nullptr;  // of a key
    std::shared_ptr<const void> key = {};      // a copy of it
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
  void size(std::string_view kind, std::size_t size) {
    shape.steps.push_back({StructureShape::Step::Kind::size, kind, size});
  }
  template <class Key, class Compare>
  void key(const Key& key, const Compare& /*compare*/) {
    shape.steps.push_back({StructureShape::Step::Kind::key, {}, 0, &typeid(Key), std::make_shared<const Key>(key)});
  }
  void end_of_element() { shape.steps.push_back({StructureShape::Step::Kind::end_of_element}); }

  StructureShape shape;
};

// Takes the tensors out of a structure, and compares its shape with another one on the way. Allocates the row of
// tensors alone.
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
  void size(std::string_view kind, std::size_t size) {
    step(Kind::size, [&](const Step& expected) { return expected.size == size && expected.container == kind; });
  }
  template <class Key, class Compare>
  void key(const Key& key, const Compare& compare) {
    step(Kind::key, [&](const Step& expected) {
      if (*expected.key_type != typeid(Key)) return false;
      const Key& known = *static_cast<const Key*>(expected.key.get());
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

// Writes a structure down, for errors: "map[2] x: tensor y: vector[1] tensor"; "|" is between the elements of a tuple.
class StructureText {
 public:
  void operator()(at::Tensor& /*tensor*/) { add("tensor"); }
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

template <class F>
void note_size(F& f, std::string_view kind, std::size_t size) {
  if constexpr (requires { f.size(kind, size); }) f.size(kind, size);
}

template <class F, class Key, class Compare>
void note_key(F& f, const Key& key, const Compare& compare) {
  if constexpr (requires { f.key(key, compare); }) f.key(key, compare);
}

// Structures of users may have more or fewer tensors without a container that tells: the ends of elements tell which
// tensors are whose.
template <class T, class F>
void visit_element(T& element, F& f) {
  for_each_tensor(element, f);
  if constexpr (!std::is_same_v<T, at::Tensor> && requires { f.end_of_element(); }) f.end_of_element();
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

template <class T, class F>
void for_each_tensor(std::vector<T>& vector, F&& f) {
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
