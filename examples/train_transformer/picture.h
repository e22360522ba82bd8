// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace train_transformer {

/// \throws example::InputError if the file cannot be written. Leaves what is in it.
void require_writable(const std::filesystem::path& svg);

/// A line of the picture.
struct Curve {
  std::string name, colour;
  double stroke;              ///< its width in pixels
  std::vector<float> values;  ///< one for each step
};

/// Draws curves over the steps of training as SVG; the axis begins at zero.
/// \throws std::runtime_error if the file cannot be written.
void write_picture(const std::filesystem::path& svg, const std::string& title, const std::vector<Curve>& curves);

}  // namespace train_transformer
