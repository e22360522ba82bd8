// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/version.h>

// Differences between versions of libtorch in its part for CUDA; as libtorch/versions/version.h for the rest.

#if TORCH_VERSION_MINOR < 11
#include "libtorch/cuda/versions/from_2_8.h"
#else
#include "libtorch/cuda/versions/from_2_11.h"
#endif
#if TORCH_VERSION_MINOR < 12
#include "libtorch/cuda/versions/draws_of_one_capture.h"
#else
#include "libtorch/cuda/versions/from_2_12.h"
#endif
