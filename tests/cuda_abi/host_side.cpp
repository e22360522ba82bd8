// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_abi/side.inc"

namespace reprise::test {

Side side_of_host_compiler() {
  return make_side("the host compiler");
}

}  // namespace reprise::test
