// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/libtorch/distributed.h"

namespace reprise::libtorch {

/// The group of NCCL for several processes: init_process_group(). In cuda/; where libtorch has no CUDA,
/// no_nccl_group.cpp stands in for it.
c10::intrusive_ptr<c10d::Backend> make_nccl_group(c10::Device device, const ProcessEnvironment& environment,
                                                  const ProcessGroupOptions& options);

}  // namespace reprise::libtorch
