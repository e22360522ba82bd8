// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "support/program.h"

namespace train_transformer {
namespace {

constexpr double width = 640, height = 400, left = 60, right = 20, top = 40, bottom = 50;  // pixels

// From steps and values to pixels.
struct Axes {
  double steps, highest;

  double x(double step) const { return left + (width - left - right) * step / steps; }
  double y(double value) const { return height - bottom - (height - top - bottom) * value / highest; }
};

Axes axes_of(const std::vector<Curve>& curves) {
  Axes axes{1, 0.5};
  for (const Curve& curve : curves) {
    axes.steps = std::max(axes.steps, static_cast<double>(curve.values.size()));
    for (const float value : curve.values)
      if (std::isfinite(value)) axes.highest = std::max(axes.highest, std::ceil(2 * static_cast<double>(value)) / 2);
  }
  return axes;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

std::string grid(const Axes& axes, const std::string& title) {
  std::string svg;
  const double between = 0.5 * std::ceil(axes.highest / 4);  // lines
  for (double value = 0; value <= axes.highest; value += between) {
    svg += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ccc\"/>\n", left,
                       width - right, axes.y(value), axes.y(value));
    svg += text_at(left - 8, axes.y(value) + 4, "end", fmt::format("{:.1f}", value));
  }
  for (int part = 0; part <= 4; ++part) {
    const double step = std::round(axes.steps * part / 4);
    svg += text_at(axes.x(step), height - bottom + 20, "middle", fmt::format("{:.0f}", step));
  }
  svg += text_at((left + width - right) / 2, height - 10, "middle", "step");
  return svg + text_at((left + width - right) / 2, 22, "middle", title);
}

// A value that is no number, as of a training that failed, ends a line; the next one begins another.
std::string lines(const Axes& axes, const Curve& curve) {
  std::string svg, points;
  const auto end_line = [&] {
    if (!points.empty())
      svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" points=\"{}\"/>\n", curve.colour,
                         curve.stroke, points);
    points.clear();
  };
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    if (std::isfinite(curve.values[i]))
      points += fmt::format("{:.1f},{:.1f} ", axes.x(static_cast<double>(i)), axes.y(curve.values[i]));
    else
      end_line();
  }
  end_line();
  return svg;
}

}  // namespace

void require_writable(const std::filesystem::path& svg) {
  if (!std::ofstream(svg, std::ios::app))
    throw example::InputError(fmt::format("--svg: cannot write \"{}\"", svg.string()));
}

void write_picture(const std::filesystem::path& svg, const std::string& title, const std::vector<Curve>& curves) {
  const Axes axes = axes_of(curves);
  std::string body = grid(axes, title);
  double row = top + 16;
  for (const Curve& curve : curves) {
    body += lines(axes, curve);
    body += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"{}\">{}</text>\n",
                        width - right - 8, row, curve.colour, curve.name);
    row += 18;
  }
  std::ofstream file(svg);
  file << fmt::format(
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
              "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" "
              "fill=\"white\"/>\n",
              width, height)
       << body << "</svg>\n";
  if (!file.flush()) throw std::runtime_error(fmt::format("cannot write \"{}\"", svg.string()));
}

}  // namespace train_transformer
