// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cuda_installation.h"

namespace reprise::tools {

/// An environment variable of the library.
struct Setting {
  std::string name;
  std::string value;
  std::string effect;  ///< what it does, without a full stop; empty if it cannot be used
  std::string error;   ///< the text of the error that programs get; empty if it can be used
};

/// The variables REPRISE_* as they are set, with those that the library does not read.
std::vector<Setting> find_settings(const CudaInstallation& cuda);

}  // namespace reprise::tools
