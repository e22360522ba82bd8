// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "table.h"

namespace benchmarks {

struct Program;
struct Settings;

/// The tables of a run, for `--json`.
class Results {
 public:
  Results();
  ~Results();

  /// Returns the number of the table, for row().
  std::size_t add_table(const std::string& name, const std::string& title, const std::vector<Column>& columns);
  void add_row(std::size_t table, const std::vector<Cell>& cells);

  /// Notes, and prints, that a part of the run failed: the others go on, and the program fails in the end.
  void add_failure(const std::string& part, const std::string& error);
  bool has_failures() const;

  /// Writes machine, versions, method, all tables and what failed. \throws std::runtime_error if the file cannot be
  /// written.
  void write(const std::string& path, const Program& program, const Settings& settings) const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

}  // namespace benchmarks
