// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace digits {
namespace {

constexpr unsigned bar_width = 24;      // characters; the whole line stays within 80
constexpr unsigned lines_of_a_run = 5;  // where there is no terminal

}  // namespace

Progress::Progress(std::string label, unsigned epochs)
    : label_(std::move(label)),
      epochs_(epochs),
      digits_(fmt::formatted_size("{}", epochs)),
      terminal_(isatty(STDOUT_FILENO) == 1) {
  if (terminal_) draw_bar(0, "");
}

Progress::~Progress() {
  if (terminal_) std::fputc('\n', stdout);
  std::fflush(stdout);
}

void Progress::show(unsigned epoch, double loss, double accuracy) {
  const std::string text = fmt::format("loss {:.4f}  accuracy {:5.2f} %", loss, 100 * accuracy);
  if (terminal_) return draw_bar(epoch, text);
  const unsigned every = std::max(1U, epochs_ / lines_of_a_run);
  if (epoch % every != 0 && epoch != epochs_) return;
  const std::string line = fmt::format("{:<8}  epoch {:>{}}/{}  {}\n", label_, epoch, digits_, epochs_, text);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

void Progress::draw_bar(unsigned epoch, const std::string& text) {
  const auto done = static_cast<unsigned>(std::uint64_t{epoch} * bar_width / epochs_);
  // The escape sequence clears the rest of the line.
  const std::string line = fmt::format("\r{:<8}  [{}{}]  {:>{}}/{}  {}\x1b[K", label_, std::string(done, '#'),
                                       std::string(bar_width - done, '.'), epoch, digits_, epochs_, text);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace digits
