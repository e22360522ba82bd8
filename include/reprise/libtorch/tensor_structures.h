// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
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

// Takes the tensors out of a structure, and notes where they are: between which containers of which lengths and keys.
class TensorCollector {
 public:
  void operator()(at::Tensor& tensor) {
    tensors.push_back(tensor);
    mix(tensors.size());
  }
  void size(std::string_view /*kind*/, std::size_t size) { mix(size); }
  template <class Key>
  void key(const Key& key) {
    if constexpr (requires { std::hash<Key>{}(key); }) mix(std::hash<Key>{}(key));
  }

  std::vector<at::Tensor> tensors;
  std::size_t structure = 0;  // a hash of the structure

 private:
  void mix(std::size_t value) { structure = (structure ^ value) * 0x100000001B3U + 1; }
};

// Puts tensors into a structure that has places for as many.
class TensorAssigner {
 public:
  explicit TensorAssigner(const std::vector<at::Tensor>& tensors) : next_(tensors.data()) {}
  void operator()(at::Tensor& tensor) { tensor = *next_++; }

 private:
  const at::Tensor* next_;
};

// Writes a structure down, for errors: "map[2] x: tensor y: vector[1] tensor".
class StructureText {
 public:
  void operator()(at::Tensor& /*tensor*/) { text += text.empty() ? "tensor" : " tensor"; }
  void size(std::string_view kind, std::size_t size) {
    if (!text.empty()) text += ' ';
    text.append(kind).append("[").append(std::to_string(size)).append("]");
  }
  template <class Key>
  void key(const Key& key) {
    if constexpr (std::is_convertible_v<const Key&, std::string_view>)
      text.append(" ").append(std::string_view(key)).append(":");
    else if constexpr (std::is_arithmetic_v<Key>)
      text.append(" ").append(std::to_string(key)).append(":");
  }

  std::string text;
};

template <class F>
void note_size(F& f, std::string_view kind, std::size_t size) {
  if constexpr (requires { f.size(kind, size); }) f.size(kind, size);
}

template <class F, class Key>
void note_key(F& f, const Key& key) {
  if constexpr (requires { f.key(key); }) f.key(key);
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
  for (T& each : vector) for_each_tensor(each, f);
}

template <class T, std::size_t N, class F>
void for_each_tensor(std::array<T, N>& array, F&& f) {
  for (T& each : array) for_each_tensor(each, f);
}

template <class Key, class T, class Compare, class F>
void for_each_tensor(std::map<Key, T, Compare>& map, F&& f) {
  detail::note_size(f, "map", map.size());
  for (auto& [key, value] : map) {
    detail::note_key(f, key);
    for_each_tensor(value, f);
  }
}

template <class A, class B, class F>
void for_each_tensor(std::pair<A, B>& pair, F&& f) {
  for_each_tensor(pair.first, f);
  for_each_tensor(pair.second, f);
}

template <class... Ts, class F>
void for_each_tensor(std::tuple<Ts...>& tuple, F&& f) {
  std::apply([&](Ts&... each) { (for_each_tensor(each, f), ...); }, tuple);
}

/// A type whose tensors for_each_tensor() finds.
template <class T>
concept TensorStructure = std::is_copy_constructible_v<T> && requires(T& value, detail::TensorCollector& visitor) {
  for_each_tensor(value, visitor);
};

}  // namespace reprise::libtorch
