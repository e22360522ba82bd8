// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace digits {

inline constexpr unsigned pixels_per_image = 64, classes = 10;

/// Images of digits with their labels.
struct Images {
  std::vector<float> pixels;         ///< `pixels_per_image` for each image, from 0 to 1
  std::vector<std::uint8_t> labels;  ///< 0 to 9, one for each image

  unsigned count() const { return static_cast<unsigned>(labels.size()); }
};

/// The images, split by their place in the file: every fifth one is held out for testing.
struct Dataset {
  Images train;
  Images test;
};

/// Reads a file with one image a line: 64 pixels from 0 to 16, then the label from 0 to 9, separated by commas.
/// \throws InputError naming the file, the line, what was expected and what was found.
Dataset load_dataset(const std::filesystem::path& path);

}  // namespace digits
