// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace digits {

/// The options of the command line.
struct Options {
  std::optional<std::string> device;  ///< as reprise::Device::parse takes it; nullopt: the default device
  unsigned epochs = 30;
  unsigned batch = 32;
  float dropout = 0.1F;  ///< from 0 to below 1
  std::uint64_t seed = 1;
  bool liveness = false;  ///< check the graph's inputs at each replay
  std::filesystem::path svg = "train_digits.svg";
  std::filesystem::path data = REPRISE_DIGITS_CSV;
};

/// Reads the command line. nullopt after --help, which is printed.
/// \throws InputError
std::optional<Options> parse_options(int argc, char** argv);

}  // namespace digits
