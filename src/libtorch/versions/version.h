// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/version.h>

// Differences between versions of libtorch, under one name each, in reprise::libtorch::version. A file is for its
// version and those after it, up to the next file. cmake/Torch.cmake has the oldest and the newest version. What is for
// CUDA tensors lies in cuda/versions/.

#if TORCH_VERSION_MINOR < 13
#include "libtorch/versions/shared_nodes.h"
#else
#include "libtorch/versions/from_2_13.h"
#endif
