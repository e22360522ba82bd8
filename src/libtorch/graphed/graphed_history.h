// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "reprise/detail/export.h"

namespace reprise::libtorch::detail {

/// Describes a leaf of autograd's graph, besides the known ones, that a result depends on, if there is one.
REPRISE_EXPORT_INTERNAL std::optional<std::string> leaf_besides(const std::vector<at::Tensor>& known,
                                                                const std::vector<at::Tensor>& results);

}  // namespace reprise::libtorch::detail
