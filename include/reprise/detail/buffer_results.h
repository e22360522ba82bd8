// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/memory.h"

/// \file
/// The buffers that a user's function returns, alone or in a container of the standard library. For internal use.

namespace reprise::results_detail {

/// Only declared: the same container of other things, an `As<T>` for each Buffer<T>.
template <template <class> class As, class T>
As<T> rebound(const Buffer<T>&);
template <template <class> class As, class T>
std::vector<As<T>> rebound(const std::vector<Buffer<T>>&);
template <template <class> class As, class T, std::size_t N>
std::array<As<T>, N> rebound(const std::array<Buffer<T>, N>&);
template <template <class> class As, class A, class B>
std::pair<As<A>, As<B>> rebound(const std::pair<Buffer<A>, Buffer<B>>&);
template <template <class> class As, class... T>
std::tuple<As<T>...> rebound(const std::tuple<Buffer<T>...>&);

/// Buffers, or containers of them.
template <class Returned>
concept BufferResults = requires(const Returned& returned) {
  results_detail::rebound<Buffer>(returned);
};

/// Calls a function with each element of such a container, or with what is alone.
template <class Container>
void for_each(Container& container, const auto& visit) {
  if constexpr (std::ranges::range<Container>)
    for (auto& each : container) visit(each);
  else if constexpr (requires { std::tuple_size<std::remove_const_t<Container>>::value; })
    std::apply([&](auto&... each) { (visit(each), ...); }, container);
  else
    visit(container);
}

/// Makes the container of `count` elements; `make_one(std::type_identity<T>, number)` returns each.
template <template <class> class As, BufferResults Returned>
auto make(std::size_t count, const auto& make_one) {
  decltype(results_detail::rebound<As>(std::declval<const Returned&>())) made;
  if constexpr (requires { made.resize(count); }) made.resize(count);
  std::size_t number = 0;
  results_detail::for_each(made, [&]<class T>(As<T>& one) { one = make_one(std::type_identity<T>(), number++); });
  return made;
}

}  // namespace reprise::results_detail
