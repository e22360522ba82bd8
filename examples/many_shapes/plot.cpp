// SPDX-License-Identifier: Apache-2.0
#include "plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace many_shapes {
namespace {

constexpr double line_height = 26, left = 80, most_wide = 260;

/// A column of bars with their values.
std::string column(const std::vector<Bar>& bars, double at, const char* title, const char* colour, const char* unit,
                   double (*value)(const Bar&)) {
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, value(bar));
  std::string text = fmt::format("<text x=\"{}\" y=\"18\" font-weight=\"bold\">{}</text>\n", at, title);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double top = 30 + line_height * static_cast<double>(i);
    const double wide = most > 0 ? most_wide * value(bars[i]) / most : 0;
    text +=
        fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"16\" fill=\"{}\"/>\n", at, top, wide, colour);
    text +=
        fmt::format("<text x=\"{:.1f}\" y=\"{}\">{:.1f} {}</text>\n", at + wide + 6, top + 12, value(bars[i]), unit);
  }
  return text;
}

}  // namespace

void write_plot(const std::string& path, const std::vector<Bar>& bars) {
  const double high = 40 + line_height * static_cast<double>(bars.size());
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      high);
  for (std::size_t i = 0; i < bars.size(); ++i)
    text += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n", 42 + line_height * static_cast<double>(i), bars[i].name);
  text += column(bars, left, "time of a call", "#4878a8", "us", [](const Bar& bar) { return bar.microseconds; });
  text += column(bars, left + most_wide + 100, "device memory", "#a86048", "KiB",
                 [](const Bar& bar) { return static_cast<double>(bar.bytes) / 1024; });
  std::ofstream file(path);
  file << text << "</svg>\n";
  if (!file.flush()) throw std::runtime_error(fmt::format("{} cannot be written", path));
}

}  // namespace many_shapes
