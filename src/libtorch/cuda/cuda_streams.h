// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/current.h"

namespace reprise::libtorch {

/// libtorch's current streams and current device of CUDA. The stream of an id from its pools stays that: a stream that
/// was current, or that this library was given, becomes current again as the same c10::Stream.
const backend::FrameworkCurrent& current_of_libtorch();

}  // namespace reprise::libtorch
