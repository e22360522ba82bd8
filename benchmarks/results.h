// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "table.h"

namespace benchmarks {

struct Settings;

/// The tables of a run, for `--json`.
class Results {
 public:
  Results();
  ~Results();

  /// Returns the number of the table, for row().
  std::size_t add_table(const std::string& name, const std::string& title, const std::vector<Column>& columns);
  void add_row(std::size_t table, const std::vector<Cell>& cells);

  /// Writes machine, versions, method and all tables. \throws std::runtime_error if the file cannot be written.
  void write(const std::string& path, const std::string& program, const Settings& settings) const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace benchmarks
