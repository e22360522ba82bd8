// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "support/program.h"

namespace conjugate_gradient {
namespace {

constexpr double width = 640, height = 400, left = 70, right = 20, top = 40, bottom = 50;  // pixels

// From numbers to pixels.
struct Axes {
  double most_iterations, lowest, highest;  // the latter two: powers of ten

  double x(double iteration) const { return left + (width - left - right) * iteration / most_iterations; }
  double y(double exponent) const {
    return height - bottom - (height - top - bottom) * (exponent - lowest) / (highest - lowest);
  }
};

double exponent_of(double residual) {
  return std::log10(std::max(residual, 1e-300));
}

Axes axes_of(const std::vector<double>& residuals) {
  const auto [least, most] = std::minmax_element(residuals.begin(), residuals.end());
  const double lowest = std::floor(exponent_of(*least)), highest = std::ceil(exponent_of(*most));
  return {std::max<double>(1, static_cast<double>(residuals.size()) - 1), lowest, std::max(highest, lowest + 1)};
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

std::string grid(const Axes& axes) {
  std::string svg;
  const double step = std::max(1.0, std::ceil((axes.highest - axes.lowest) / 8));
  for (double exponent = axes.lowest; exponent <= axes.highest; exponent += step) {
    svg += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ccc\"/>\n", left,
                       width - right, axes.y(exponent), axes.y(exponent));
    svg += text_at(left - 8, axes.y(exponent) + 4, "end", fmt::format("1e{:.0f}", exponent));
  }
  for (int part = 0; part <= 4; ++part) {
    const double iteration = std::round(axes.most_iterations * part / 4);
    svg += text_at(axes.x(iteration), height - bottom + 20, "middle", fmt::format("{:.0f}", iteration));
  }
  svg += text_at((left + width - right) / 2, height - 10, "middle", "iteration");
  return svg + text_at((left + width - right) / 2, 22, "middle", "norm of the residual");
}

}  // namespace

void require_writable(const std::filesystem::path& svg) {
  if (!std::ofstream(svg, std::ios::app))
    throw example::InputError(fmt::format("--svg: cannot write \"{}\"", svg.string()));
}

void write_picture(const std::filesystem::path& svg, const std::vector<double>& residuals) {
  const Axes axes = axes_of(residuals);
  std::string line;
  for (std::size_t i = 0; i < residuals.size(); ++i)
    line += fmt::format("{:.1f},{:.1f} ", axes.x(static_cast<double>(i)), axes.y(exponent_of(residuals[i])));
  std::ofstream file(svg);
  file << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
      width, height);
  file << grid(axes) << "<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\" points=\"" << line
       << "\"/>\n</svg>\n";
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write \"{}\"", svg.string()));
}

}  // namespace conjugate_gradient
