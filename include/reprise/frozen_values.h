// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/detail/export.h"
#include "reprise/error.h"

/// \file
/// Frozen values: numbers and addresses that the host computes for each iteration, and that a graph repeats.

namespace reprise {

/// For GraphOptions::check_frozen_values: nothing happens between the two captures, so that only what the body itself
/// changes is found.
inline void no_next() noexcept {}

/// A value in the parameters of a node that differs between two captures of the same body. A value without references
/// to other objects. Bytes of `first` and `second` that are recognised as written by no code, such as padding, are 0.
struct REPRISE_EXPORT FrozenValue {
  std::string node;           ///< for example "kernel Scale (node 3)"; nodes count from 0
  Annotation annotation;      ///< of the node; empty if it has none
  std::string operator_name;  ///< the operator of libtorch that made the node; empty if none did or it is unknown
  /// Index of the parameter of a kernel; nullopt for other values, and in a block of arguments (`extra` of
  /// cuLaunchKernel) if the driver does not provide where its parameters lie.
  std::optional<std::size_t> parameter = {};
  std::size_t offset = 0;    ///< in bytes from the start of the parameter, or of the block of arguments
  std::string member;        ///< the name of the value, for example "bytes" or "grid.x"; may be empty
  std::size_t bytes = 0;     ///< size of the value: 1, 2, 4 or 8
  std::uint64_t first = 0;   ///< the value in the first capture, its bytes in the low ones
  std::uint64_t second = 0;  ///< the value in the second capture, which the graph would repeat
  /// Places of the addresses, for example "offset 16 of 512 bytes at 0x7f8011e00000"; empty for other values, and in
  /// memory that no allocator knows.
  std::string first_memory = {}, second_memory = {};
  bool perhaps = false;  ///< true if these may be bytes of a parameter, or of a block, that no code wrote

  /// One line: node, annotation, operator, place, and both values in hexadecimal, as an integer and as a floating-point
  /// number, or where they lie if they are addresses.
  std::string str() const;
};

/// A capture was refused because values differ from one iteration to the next (GraphOptions::check_frozen_values).
/// Nothing is captured; the graph can capture again.
class REPRISE_EXPORT FrozenValuesError : public Error {
 public:
  /// \param what the whole text.
  /// \param values the values that differ.
  FrozenValuesError(const std::string& what, std::vector<FrozenValue> values)
      : Error(what), values_(std::make_shared<const std::vector<FrozenValue>>(std::move(values))) {}

  /// All of them, by node: first those that certainly differ, then those that perhaps do. They live as long as this
  /// exception or a copy of it.
  const std::vector<FrozenValue>& values() const noexcept { return *values_; }

 private:
  std::shared_ptr<const std::vector<FrozenValue>> values_;  // so that copying an exception cannot throw
};

}  // namespace reprise
