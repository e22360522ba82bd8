// SPDX-License-Identifier: Apache-2.0
#include "libtorch/distributed/nccl_group.h"
#include "reprise/error.h"

// Replaces cuda/ where libtorch was built without CUDA, or its headers are incomplete.

namespace reprise::libtorch {

c10::intrusive_ptr<c10d::Backend> make_nccl_group(c10::Device /*device*/, const ProcessEnvironment& /*environment*/,
                                                  const ProcessGroupOptions& /*options*/) {
  throw UsageError(
      "init_process_group: this library was built without NCCL, because libtorch has no CUDA or headers of CUDA are "
      "missing. Pass DataParallel a process group of your own.");
}

}  // namespace reprise::libtorch
