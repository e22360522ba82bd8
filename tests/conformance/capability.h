// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "reprise/device.h"

// What only some backends can do. One suite runs over every backend of the machine; a test that needs more than all of
// them have names it, and is skipped, with the reason, where that is lacking. capability.cpp has the table.

namespace reprise::backend::test {

enum class Capability {
  green_contexts,  ///< streams that have a part of the device's multiprocessors
  two_devices,     ///< there is another device of the same kind
  /// Host functions of different streams, and host nodes of different branches, run at the same time.
  parallel_host_functions,
  /// The last release of a user object leaves its destruction to a thread of the runtime.
  destruction_on_a_thread_of_its_own,
  /// An update of an executable graph sees that a copy's memory is of another kind now.
  update_finds_memory_kinds,
  /// What a call of CUDA would return in a capture can be looked up without making it.
  calls_by_class,
};

/// Why the backend of the device lacks it; empty if it does not.
std::string why_lacking(const Device& device, Capability capability);

/// The name, as in the enum.
const char* name_of(Capability capability);

/// Skips the test on a device that lacks the capability.
#define REPRISE_NEEDS(device, capability)                                                              \
  if (const std::string why = ::reprise::backend::test::why_lacking(device, capability); !why.empty()) \
  GTEST_SKIP() << "needs " << ::reprise::backend::test::name_of(capability) << ": " << why

}  // namespace reprise::backend::test
