// SPDX-License-Identifier: Apache-2.0
#include "dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "errors.h"

namespace digits {
namespace {

constexpr unsigned values_per_line = pixels_per_image + 1;
constexpr int largest_pixel = 16;
constexpr unsigned hold_out_every = 5;
// Far more than 65 numbers need; a file with longer lines is of another kind.
constexpr std::size_t longest_line = 4096;

/// A place in the file, for messages.
struct Place {
  const std::filesystem::path& path;
  unsigned line;
};

[[noreturn]] void fail(const Place& place, const std::string& expected, const std::string& found) {
  throw InputError(fmt::format("{}:{}: expected {}, found {}", place.path.string(), place.line, expected, found));
}

/// Text of the file in a form that is safe to show: short, and in one line.
std::string shown(std::string_view text) {
  constexpr std::size_t longest = 24;
  std::string result(text.substr(0, longest));
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  return fmt::format("\"{}\"{}", result, text.size() > longest ? "..." : "");
}

int parse_value(const Place& place, unsigned position, std::string_view text) {
  const bool is_label = position == values_per_line;
  const int largest = is_label ? static_cast<int>(classes) - 1 : largest_pixel;
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || value < 0 || value > largest)
    fail(place,
         fmt::format("a whole number from 0 to {} as value {} ({})", largest, position, is_label ? "label" : "pixel"),
         text.empty() ? "nothing" : shown(text));
  return value;
}

std::array<int, values_per_line> parse_line(const Place& place, std::string_view line) {
  if (line.empty()) fail(place, fmt::format("{} numbers", values_per_line), "an empty line");
  const auto count = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
  if (count != values_per_line)
    fail(place,
         fmt::format("{} numbers separated by commas ({} pixels, then the label)", values_per_line, pixels_per_image),
         std::to_string(count));
  std::array<int, values_per_line> values{};
  for (unsigned position = 1; position <= values_per_line; ++position) {
    const std::string_view text = line.substr(0, line.find(','));
    values[position - 1] = parse_value(place, position, text);
    line.remove_prefix(std::min(line.size(), text.size() + 1));
  }
  return values;
}

void append(Images& images, const std::array<int, values_per_line>& values) {
  for (unsigned i = 0; i < pixels_per_image; ++i)
    images.pixels.push_back(static_cast<float>(values[i]) / static_cast<float>(largest_pixel));
  images.labels.push_back(static_cast<std::uint8_t>(values.back()));
}

[[noreturn]] void cannot_read(const std::filesystem::path& path, const char* reason) {
  throw InputError(fmt::format("cannot read the images in \"{}\": {}", path.string(), reason));
}

}  // namespace

Dataset load_dataset(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) cannot_read(path, "it is a directory");
  std::ifstream file(path);
  if (!file) cannot_read(path, std::strerror(errno));

  Dataset dataset;
  std::array<char, longest_line> buffer{};
  unsigned count = 0;
  while (file.getline(buffer.data(), buffer.size())) {
    // The count includes the end of the line, which the last one may lack; a zero byte is an ordinary character.
    const auto read = static_cast<std::size_t>(file.gcount());
    std::string_view line(buffer.data(), file.eof() ? read : read - 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const auto values = parse_line({path, count + 1}, line);
    append(count % hold_out_every == hold_out_every - 1 ? dataset.test : dataset.train, values);
    ++count;
  }
  if (file.bad()) cannot_read(path, std::strerror(errno));
  if (!file.eof())
    fail({path, count + 1}, fmt::format("{} numbers", values_per_line),
         fmt::format("a line of more than {} characters", longest_line - 1));
  if (count < hold_out_every)
    fail({path, count + 1},
         fmt::format("at least {} images, of which every {}th is held out", hold_out_every, hold_out_every),
         count == 0 ? "an empty file" : fmt::format("the end of the file after {}", count));
  return dataset;
}

}  // namespace digits
