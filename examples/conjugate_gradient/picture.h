// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace conjugate_gradient {

/// \throws example::InputError if the file cannot be written. Leaves what is in it.
void require_writable(const std::filesystem::path& svg);

/// Draws the norm of the residual over the iterations as SVG, with a logarithmic axis.
/// \throws std::runtime_error if the file cannot be written.
void write_picture(const std::filesystem::path& svg, const std::vector<double>& residuals);

}  // namespace conjugate_gradient
