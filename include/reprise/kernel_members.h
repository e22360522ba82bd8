// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/device_code.h"

/// \file
/// Places of the members of a struct that a kernel takes by value: its other bytes are padding, which no comparison of
/// two launches may count. For internal use.

namespace reprise {

/// A number, pointer or enumerator within a parameter of a kernel.
struct KernelMember {
  std::size_t offset = 0;  ///< in bytes from the start of the parameter
  std::size_t size = 0;    ///< in bytes
  bool whole = true;       ///< false if it may have padding within, in a place that is not known
};

inline namespace REPRISE_KERNEL_ABI {

namespace kernel_detail {

template <class T>
inline constexpr bool is_number = (std::is_arithmetic_v<T> && sizeof(T) <= 8) || std::is_enum_v<T> ||
                                  std::is_pointer_v<T> || std::is_null_pointer_v<T>;

template <class T>
inline constexpr bool has_no_padding = is_number<T> || std::has_unique_object_representations_v<T>;

// Stands for any value in the initialisation of an aggregate. None of the conversions is ever evaluated.
struct AnyValue {
  template <class T>
  constexpr operator T() const noexcept;
};
struct AnyUnion {
  template <class T, class = std::enable_if_t<std::is_union_v<T>>>
  constexpr operator T() const noexcept;
};
template <class Derived>
struct AnyBase {
  template <class T, class = std::enable_if_t<std::is_class_v<T> && std::is_base_of_v<T, Derived>>>
  constexpr operator T() const noexcept;
};

template <std::size_t>
using AnyValueAt = AnyValue;

template <class T, class Last, std::size_t... I>
constexpr bool initialised_by(std::index_sequence<I...>) {
  return requires {
    T{AnyValueAt<I>{}..., Last{}};
  };
}
template <class T, std::size_t... I>
constexpr bool takes_values(std::index_sequence<I...>) {
  return requires {
    T{AnyValueAt<I>{}...};
  };
}
template <class T, std::size_t... I, std::size_t... J>
constexpr bool takes_braces(std::index_sequence<I...>, std::index_sequence<J...>) {
  return requires {
    T{AnyValueAt<I>{}..., {}, AnyValueAt<J>{}...};
  };
}

// The largest number in [Low, High] of values after which T can be initialised; it can be for Low. Each element of an
// array that is a member counts.
template <class T, std::size_t Low, std::size_t High>
constexpr std::size_t most_values() {
  if constexpr (Low == High) {
    return Low;
  } else {
    constexpr std::size_t middle = (Low + High + 1) / 2;
    if constexpr (takes_values<T>(std::make_index_sequence<middle>{}))
      return most_values<T, middle, High>();
    else
      return most_values<T, Low, middle - 1>();
  }
}

// The largest number in [Low, High] of values that can follow {} for the member at Begin; Low values can.
template <class T, std::size_t Begin, std::size_t Low, std::size_t High>
constexpr std::size_t most_after() {
  if constexpr (Low == High) {
    return Low;
  } else {
    constexpr std::size_t middle = (Low + High + 1) / 2;
    if constexpr (takes_braces<T>(std::make_index_sequence<Begin>{}, std::make_index_sequence<middle>{}))
      return most_after<T, Begin, middle, High>();
    else
      return most_after<T, Begin, Low, middle - 1>();
  }
}

inline constexpr std::size_t most_members = 16;  // as note_members() can bind
inline constexpr std::size_t unknown_members = most_members + 1;

// The number of members from the value Begin of Total on; unknown_members if they cannot be bound: a union, whose
// names are those of the struct if it has none, and more than most_members.
template <class T, std::size_t Total, std::size_t Begin, std::size_t Before>
constexpr std::size_t count_members() {
  if constexpr (Begin >= Total) {
    return Before;
  } else if constexpr (Before == most_members || initialised_by<T, AnyUnion>(std::make_index_sequence<Begin>{}) ||
                       !takes_braces<T>(std::make_index_sequence<Begin>{}, std::make_index_sequence<0>{})) {
    return unknown_members;
  } else if constexpr (takes_braces<T>(std::make_index_sequence<Begin>{},
                                       std::make_index_sequence<Total - Begin - 1>{})) {
    return count_members<T, Total, Begin + 1, Before + 1>();
  } else {
    constexpr std::size_t after = most_after<T, Begin, 0, Total - Begin - 1>();
    return count_members<T, Total, Total - after, Before + 1>();
  }
}

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

// The number of members of a struct; unknown_members if it is none that can be bound.
template <class T>
constexpr std::size_t members_of() {
  if constexpr (!std::is_class_v<T> || !std::is_aggregate_v<T> || TupleLike<T> || sizeof(T) > 4096) {
    return unknown_members;
  } else if constexpr (!takes_values<T>(std::make_index_sequence<0>{}) ||
                       takes_values<T>(std::make_index_sequence<sizeof(T) + 1>{}) ||
                       initialised_by<T, AnyBase<T>>(std::index_sequence<>{})) {
    return unknown_members;
  } else {
    return count_members<T, most_values<T, 0, sizeof(T)>(), 0, 0>();
  }
}

template <class T>
struct IsStdArray : std::false_type {};
template <class T, std::size_t N>
struct IsStdArray<std::array<T, N>> : std::true_type {};

// Notes members of one object. Only addresses are used, no value.
class MemberNotes {
 public:
  template <class T>
  explicit MemberNotes(const T& object)
      : begin_(reinterpret_cast<std::uintptr_t>(std::addressof(object))), end_(begin_ + sizeof(T)) {}

  // Notes what a member consists of, the members of a struct one by one.
  template <class T>
  void note(const T& member) {
    if constexpr (std::is_array_v<T> || IsStdArray<T>::value) {
      for (const auto& element : member) note(element);
    } else if constexpr (std::is_empty_v<T>) {
    } else if constexpr (has_no_padding<T>) {
      add(std::addressof(member), sizeof(T), true);
    } else if constexpr (members_of<T>() != unknown_members) {
      note_members(member);
    } else {
      add(std::addressof(member), sizeof(T), false);
    }
  }

  // Empty if a member is no object of its own, which bit-fields are not.
  std::vector<KernelMember> take() {
    if (outside_) members_.clear();
    return std::move(members_);
  }

 private:
  void add(const void* member, std::size_t size, bool whole) {
    const auto at = reinterpret_cast<std::uintptr_t>(member);
    if (at < begin_ || at + size > end_)
      outside_ = true;  // a temporary, made of a bit-field
    else
      members_.push_back({at - begin_, size, whole});
  }

  template <class... Members>
  void note_all(const Members&... members) {
    (note(members), ...);
  }

  template <class T>
  void note_members(const T& s) {
    constexpr std::size_t count = members_of<T>();
    if constexpr (count == 1) {
      const auto& [a] = s;
      note_all(a);
    } else if constexpr (count == 2) {
      const auto& [a, b] = s;
      note_all(a, b);
    } else if constexpr (count == 3) {
      const auto& [a, b, c] = s;
      note_all(a, b, c);
    } else if constexpr (count == 4) {
      const auto& [a, b, c, d] = s;
      note_all(a, b, c, d);
    } else if constexpr (count == 5) {
      const auto& [a, b, c, d, e] = s;
      note_all(a, b, c, d, e);
    } else if constexpr (count == 6) {
      const auto& [a, b, c, d, e, f] = s;
      note_all(a, b, c, d, e, f);
    } else if constexpr (count == 7) {
      const auto& [a, b, c, d, e, f, g] = s;
      note_all(a, b, c, d, e, f, g);
    } else if constexpr (count == 8) {
      const auto& [a, b, c, d, e, f, g, h] = s;
      note_all(a, b, c, d, e, f, g, h);
    } else if constexpr (count == 9) {
      const auto& [a, b, c, d, e, f, g, h, i] = s;
      note_all(a, b, c, d, e, f, g, h, i);
    } else if constexpr (count == 10) {
      const auto& [a, b, c, d, e, f, g, h, i, j] = s;
      note_all(a, b, c, d, e, f, g, h, i, j);
    } else if constexpr (count == 11) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k] = s;
      note_all(a, b, c, d, e, f, g, h, i, j, k);
    } else if constexpr (count == 12) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = s;
      note_all(a, b, c, d, e, f, g, h, i, j, k, l);
    } else if constexpr (count == 13) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = s;
      note_all(a, b, c, d, e, f, g, h, i, j, k, l, m);
    } else if constexpr (count == 14) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = s;
      note_all(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
    } else if constexpr (count == 15) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = s;
      note_all(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
    } else if constexpr (count == 16) {
      const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = s;
      note_all(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
    }
  }

  std::uintptr_t begin_, end_;
  std::vector<KernelMember> members_;
  bool outside_ = false;
};

template <class T>
std::vector<KernelMember> members_of_parameter() {
  alignas(T) std::byte storage[sizeof(T)] = {};
  const T& object = *reinterpret_cast<const T*>(storage);
  MemberNotes notes(object);
  notes.note(object);
  return notes.take();
}

// For KernelParam::members.
template <class T>
constexpr auto find_members() -> std::vector<KernelMember> (*)() {
  if constexpr (has_no_padding<T> || !(IsStdArray<T>::value || members_of<T>() != unknown_members))
    return nullptr;
  else
    return &members_of_parameter<T>;
}

}  // namespace kernel_detail

}  // namespace REPRISE_KERNEL_ABI
}  // namespace reprise
