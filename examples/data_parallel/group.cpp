// SPDX-License-Identifier: Apache-2.0
#include "group.h"

namespace data_parallel {

c10::intrusive_ptr<c10d::Backend> make_group(c10::Device device,
                                             const reprise::libtorch::ProcessEnvironment& environment) {
  return reprise::libtorch::init_process_group(device, environment);
}

}  // namespace data_parallel
