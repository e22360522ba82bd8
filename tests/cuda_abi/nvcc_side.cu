// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_abi/side.inc"

namespace reprise::test {

Side side_of_nvcc() {
  return make_side("nvcc");
}

}  // namespace reprise::test
