// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reprise::tools {

/// What there is of CUDA on this machine.
struct CudaInstallation {
  struct Device {
    std::string name;
    int capability = 0;   ///< compute capability, as 90; 0 if it is not known
    std::string failure;  ///< why it cannot be used, without a full stop; empty if it can
  };

  bool built = true;        ///< the build of reprise has CUDA devices
  std::string unavailable;  ///< why there are no devices, without a full stop; empty if there are
  bool broken = false;      ///< there are devices, and the driver cannot be used
  int version = 0;          ///< of CUDA, that the driver reports, as 13000; 0 if there is none
  std::vector<Device> devices = {};
  std::string cupti;              ///< the file of CUPTI
  std::string cupti_unavailable;  ///< why there is none, without a full stop
};

/// Opens the driver, each device and CUPTI.
CudaInstallation find_cuda();

}  // namespace reprise::tools
