// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace reprise::test {

/// A path for a file that no other process uses. The file is removed at the end.
class TestFile {
 public:
  TestFile()
      : path_(std::filesystem::path(::testing::TempDir()) / ("reprise_" + std::to_string(::getpid()) + "_file")) {}
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  ~TestFile() { std::filesystem::remove(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

}  // namespace reprise::test
