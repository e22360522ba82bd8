// SPDX-License-Identifier: Apache-2.0
#include "group.h"
#include "tests/libtorch/distributed/store_group.h"

namespace data_parallel {

c10::intrusive_ptr<c10d::Backend> make_group(c10::Device /*device*/,
                                             const reprise::libtorch::ProcessEnvironment& environment) {
  return c10::make_intrusive<reprise::libtorch::test::StoreGroup>(reprise::libtorch::rendezvous(environment), "example",
                                                                  environment.rank, environment.world_size);
}

}  // namespace data_parallel
