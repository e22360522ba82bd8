// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace digits {

/// What the command line says.
struct Options {
  std::optional<std::string> device;  ///< as reprise::Device::parse takes it; not given: the default device
  unsigned epochs = 30;
  unsigned batch = 32;
  float dropout = 0.1F;  ///< from 0 to below 1
  std::uint64_t seed = 1;
  bool liveness = false;  ///< have each replay check that the memory which the graph uses is there
  std::filesystem::path svg = "train_digits.svg";
  std::filesystem::path data = REPRISE_DIGITS_CSV;
};

/// Reads the command line. Nothing if only the help was asked for; it is printed then.
/// \throws InputError
std::optional<Options> parse_options(int argc, char** argv);

}  // namespace digits
