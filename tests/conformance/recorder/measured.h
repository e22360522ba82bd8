// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reprise/device.h"
#include "tests/conformance/recorder/recorder.h"

// What the recorder wrote down on a GPU, and what it is compared on. data/measured_h200.tar.gz has the files, which
// CMake unpacks when it configures.

namespace reprise::backend::test {

constexpr const char* calls_file = "capture_calls_h200.csv";            ///< of the backend interface
constexpr const char* further_file = "capture_further_calls_h200.csv";  ///< of CUDA beside it, and green contexts

constexpr const char* nodes_file = "capture_node_calls_h200.csv";  ///< on nodes of graphs within graphs, and of memory

/// The file of that name.
/// \throws std::runtime_error if there is none.
std::filesystem::path measured_file(const std::string& name);

/// The rows of a file of the recorder.
/// \throws std::runtime_error if a line of it is no row.
std::vector<Row> measured(const std::string& file_name);

/// How many calls were recorded, as the first line of the file says; 0 if it does not.
std::size_t calls_by_the_head(const std::string& file_name);

/// A second device of the same kind; null if there is none.
Backend* another_like(const Device& device);

}  // namespace reprise::backend::test
