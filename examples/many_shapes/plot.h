// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace many_shapes {

/// One way to serve.
struct Bar {
  std::string name;
  double microseconds = 0;  ///< of a call
  std::uint64_t bytes = 0;  ///< of device memory
};

/// Draws two bars for each, time and memory, as an SVG file.
/// \throws std::runtime_error if the file cannot be written.
void write_plot(const std::string& path, const std::vector<Bar>& bars);

}  // namespace many_shapes
