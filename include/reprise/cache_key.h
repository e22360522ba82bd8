// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"

/// \file
/// The key of a GraphCache: an exact tuple of values.

namespace reprise {

namespace cache_detail {

template <class T>
concept KeyText = std::convertible_to<const T&, std::string_view>;
template <class T>
concept KeyScalar = (std::integral<T> && sizeof(T) <= sizeof(std::uint64_t)) || std::same_as<T, float> ||
                    std::same_as<T, double> || std::is_enum_v<T>;
template <class T>
concept KeyRange = !KeyText<T> && std::ranges::sized_range<const T> && std::ranges::input_range<const T>;
template <class T>
concept KeyValue = KeyText<T> || KeyScalar<T> || KeyRange<T> || std::same_as<T, std::type_index>;

}  // namespace cache_detail

/// Properties on which a captured graph depends besides its inputs: shapes, types, scalar values. A tuple of fields:
///
///     reprise::CacheKey key(batch, length, std::array{3, 224, 224}, "gelu", 0.5f);
///
/// A field is an integer of at most 64 bits, a `bool`, `char`, `float`, `double`, an enumerator, a text, a
/// `std::type_index`, or a range of these. Two keys are the same if they have the same fields in the same order:
/// integers and enumerators are compared by value (1 is `1L`; an enumerator counts as its underlying type),
/// floating-point numbers of one type by their bits (0 is not -0, a NaN is itself), all else exactly; a `float`, a
/// `double`, an integer, a `bool` and a `char` are never the same. Addresses are no fields: memory that differs from
/// call to call is an input.
///
/// A value. Up to seven scalar fields need no allocation.
class REPRISE_EXPORT CacheKey {
 public:
  CacheKey() = default;  ///< no fields
  CacheKey(const CacheKey&) = default;
  CacheKey& operator=(const CacheKey&) = default;
  CacheKey(CacheKey&& other) noexcept { *this = std::move(other); }  ///< `other` has no fields then
  CacheKey& operator=(CacheKey&& other) noexcept {
    if (this == &other) return *this;
    fields_ = std::exchange(other.fields_, 0);
    words_ = std::exchange(other.words_, 0);
    few_ = other.few_;
    more_ = std::move(other.more_);
    types_ = std::move(other.types_);
    return *this;
  }
  template <cache_detail::KeyValue First, cache_detail::KeyValue... More>
  CacheKey(const First& first, const More&... more) {  // NOLINT(google-explicit-constructor): `run({n}, ...)`
    add(first);
    (add(more), ...);
  }

  /// Appends a field. \returns this key. \throws UsageError for a null pointer as a text; so does the constructor.
  template <cache_detail::KeyValue T>
  CacheKey& add(const T& value) {
    require_texts(value);
    ++fields_;
    append(value);
    return *this;
  }

  std::size_t size() const noexcept { return fields_; }  ///< the number of fields
  /// The same for equal keys.
  std::uint64_t hash() const noexcept;
  /// The fields as text: "(12, [3, 224, 224], gelu)". With names: "(batch=12, shape=[3, 224, 224], gelu)".
  std::string str(std::span<const std::string> names = {}) const;
  /// Each field as text, in order.
  std::vector<std::string> field_texts() const;

  friend bool operator==(const CacheKey& a, const CacheKey& b) noexcept { return a.same(b); }

 private:
  enum class Kind : std::uint64_t { integer, large, boolean, character, single, twice, text, type, range };

  template <class T>
  static void require_texts(const T& value) {
    if constexpr (cache_detail::KeyText<T> && std::is_pointer_v<T>) {
      if (value == nullptr) refuse_null_text();
    } else if constexpr (cache_detail::KeyRange<T>) {
      using Element = std::ranges::range_value_t<T>;
      if constexpr (std::is_pointer_v<Element> || cache_detail::KeyRange<Element>)
        for (const auto& element : value) require_texts(static_cast<const Element&>(element));
    }
  }
  template <class T>
  void append(const T& value) {
    if constexpr (std::same_as<T, bool>) {
      append(Kind::boolean, value ? 1 : 0);
    } else if constexpr (std::same_as<T, char>) {
      append(Kind::character, static_cast<unsigned char>(value));
    } else if constexpr (std::is_enum_v<T>) {
      append(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::integral<T>) {
      const bool large = std::unsigned_integral<T> && static_cast<std::uint64_t>(value) > INT64_MAX;
      append(large ? Kind::large : Kind::integer, static_cast<std::uint64_t>(value));
    } else if constexpr (std::same_as<T, float>) {
      append(Kind::single, std::bit_cast<std::uint32_t>(value));
    } else if constexpr (std::same_as<T, double>) {
      append(Kind::twice, std::bit_cast<std::uint64_t>(value));
    } else if constexpr (std::same_as<T, std::type_index>) {
      append_text(Kind::type, value.name());
      types_.push_back(value);  // types of two anonymous namespaces can have one name
    } else if constexpr (cache_detail::KeyText<T>) {
      append_text(Kind::text, value);
    } else {
      append(Kind::range, std::ranges::size(value));
      for (const auto& element : value) append(static_cast<const std::ranges::range_value_t<T>&>(element));
    }
  }
  void append(Kind kind, std::uint64_t value) {
    push(static_cast<std::uint64_t>(kind));
    push(value);
  }
  void push(std::uint64_t word) {
    if (words_ < few_.size())
      few_[words_] = word;
    else
      more_.push_back(word);
    ++words_;
  }
  std::uint64_t word(std::size_t i) const noexcept { return i < few_.size() ? few_[i] : more_[i - few_.size()]; }
  void append_text(Kind kind, std::string_view text);
  [[noreturn]] static void refuse_null_text();
  std::string field_text(std::size_t& at) const;
  bool same(const CacheKey& other) const noexcept;

  std::size_t fields_ = 0;
  std::size_t words_ = 0;
  std::array<std::uint64_t, 14> few_;  // the first `words_`; not initialised as a whole
  std::vector<std::uint64_t> more_;
  std::vector<std::type_index> types_;
};

}  // namespace reprise
