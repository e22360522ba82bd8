// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cuda_installation.h"

namespace reprise::tools {

/// An environment variable that chooses devices, or sets up host devices.
struct Setting {
  std::string name;
  std::string value;
  std::string effect;  ///< what it does, without a full stop; empty if it cannot be used
  std::string error;   ///< the text of the error that programs get; empty if it can be used
};

/// REPRISE_DEVICE and REPRISE_HOST_* as they are set; with others of such a name, which do nothing.
std::vector<Setting> find_settings(const CudaInstallation& cuda);

}  // namespace reprise::tools
