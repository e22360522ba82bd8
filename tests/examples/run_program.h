// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::test {

/// What a program that ended left behind.
struct Outcome {
  int exit_code;    ///< 128 and the signal's number if a signal ended it
  std::string out;  ///< what it wrote to standard output
  std::string err;  ///< what it wrote to standard error
};

/// Runs a program with `folder` as its current directory, and waits for it. Standard input is empty.
/// \param environment additions to this process's environment, as `NAME=value`.
Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                    const std::filesystem::path& folder, const std::vector<std::string>& environment = {});

/// A new empty folder that is removed with everything in it at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file into it and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

/// The whole content of a file.
std::string read_file(const std::filesystem::path& path);

}  // namespace reprise::test
