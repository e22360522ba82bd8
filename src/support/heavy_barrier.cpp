// SPDX-License-Identifier: Apache-2.0
#include "support/heavy_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace reprise::support {

bool heavy_barrier() noexcept {
  // The process registers at its first call, and a child by fork() at its own.
  const auto call = [](int command) { return syscall(SYS_membarrier, command, 0U, 0) == 0; };
  return call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
         (call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

}  // namespace reprise::support
