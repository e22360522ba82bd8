// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace benchmarks {

struct Settings;
class Results;

/// A column of a table.
struct Column {
  std::string name;
  std::string unit = {};  ///< of its numbers; empty for text and counts
  int digits = 2;         ///< behind the point
  std::size_t width = 9;  ///< at least, as printed
};

/// A text or a number; nothing, where a row has no value for a column.
using Cell = std::variant<std::monostate, std::string, double>;

/// Figures of a benchmark: printed row by row as they are measured, and kept for `--json`.
class Table {
 public:
  /// Prints title and header. `name` identifies the table in the JSON file; the results of the settings keep it.
  Table(const Settings& settings, std::string name, const std::string& title, std::vector<Column> columns);

  /// \throws std::logic_error unless there is a cell for each column.
  void row(const std::vector<Cell>& cells);

 private:
  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;
  Results& results_;
  std::size_t number_;
};

}  // namespace benchmarks
