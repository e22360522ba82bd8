// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reprise/device.h"
#include "tests/conformance/recorder.h"

// What the recorder wrote down on a GPU, and what it is compared on.

namespace reprise::backend::test {

/// The rows of a file in data/; none if it is not there.
/// \throws std::runtime_error if a line of it is no row.
std::vector<Row> measured(const std::string& file_name);

/// A second device of the same kind; null if there is none.
Backend* another_like(const Device& device);

}  // namespace reprise::backend::test
