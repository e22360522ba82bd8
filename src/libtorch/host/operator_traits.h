// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace reprise::libtorch {

/// What the fallback asks an operator's schema again and again.
struct OperatorTraits {
  std::string name;                                  ///< "aten::add.out"
  std::size_t arguments = 0;                         ///< how many it has
  std::vector<bool> writes;                          ///< by argument
  std::vector<std::optional<std::size_t>> returned;  ///< by result: the argument that it is; none for a new one
  std::optional<std::size_t> generator;              ///< the argument that is its generator
  bool returns_views = false;                        ///< of its first argument's memory
  bool depends_on_values = false;                    ///< only the values tell its result, or the size of it
};

/// Those of an operator; found once. Thread-safe; valid until the process ends.
const OperatorTraits& traits_of(const c10::OperatorHandle& op);

}  // namespace reprise::libtorch
