// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/libtorch/distributed.h"

namespace data_parallel {

/// The process group of all processes, for tensors of this device. group.cpp has NCCL's; a test of this program links
/// one for host devices instead.
c10::intrusive_ptr<c10d::Backend> make_group(c10::Device device,
                                             const reprise::libtorch::ProcessEnvironment& environment);

}  // namespace data_parallel
