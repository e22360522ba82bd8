// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "results.h"
#include "support.h"

namespace benchmarks {
namespace {

std::string text_of(const Cell& cell, int digits) {
  if (const auto* const number = std::get_if<double>(&cell)) return fmt::format("{:.{}f}", *number, digits);
  if (const auto* const text = std::get_if<std::string>(&cell)) return *text;
  return "-";
}

}  // namespace

Table::Table(const Settings& settings, std::string name, const std::string& title, std::vector<Column> columns)
    : columns_(std::move(columns)), results_(*settings.results), number_(results_.add_table(name, title, columns_)) {
  std::string names, units;
  for (const Column& each : columns_) {
    widths_.push_back(std::max({each.name.size(), each.unit.size(), each.width}));
    names += fmt::format("  {:>{}}", each.name, widths_.back());
    units += fmt::format("  {:>{}}", each.unit, widths_.back());
  }
  print("{}\n{}\n{}\n", title, names, units);
}

void Table::row(const std::vector<Cell>& cells) {
  if (cells.size() != columns_.size())
    throw std::logic_error(fmt::format("a row of {} cells for {} columns", cells.size(), columns_.size()));
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i)
    line += fmt::format("  {:>{}}", text_of(cells[i], columns_[i].digits), widths_[i]);
  print("{}\n", line);
  results_.add_row(number_, cells);
}

}  // namespace benchmarks
