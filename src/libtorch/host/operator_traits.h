// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace reprise::libtorch {

/// Properties of an operator's schema that the fallback needs at each call.
struct OperatorTraits {
  std::string name;                                  ///< "aten::add.out"
  std::size_t arguments = 0;                         ///< their number
  std::vector<bool> writes;                          ///< by argument
  std::vector<std::optional<std::size_t>> returned;  ///< by result: the argument that it is; nullopt for a new one
  std::optional<std::size_t> generator;              ///< the argument that is its generator
  bool returns_views = false;                        ///< of its first argument's memory
  bool depends_on_values = false;                    ///< its result, or the size of it, depends on values
};

/// The traits of an operator; determined once. Thread-safe; valid until the process ends.
const OperatorTraits& traits_of(const c10::OperatorHandle& op);

}  // namespace reprise::libtorch
