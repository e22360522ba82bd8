// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/libtorch/host_device.h"
#include "tests/libtorch/both_devices/device_fixture.h"

namespace reprise::libtorch::test {

/// Tests of host devices alone; their program links both_devices/device/host.cpp.
using OnHostDevice = OnDevice;

}  // namespace reprise::libtorch::test
