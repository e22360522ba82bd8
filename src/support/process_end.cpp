// SPDX-License-Identifier: Apache-2.0
#include "support/process_end.h"

#include <cstdlib>

namespace reprise::support {

void watch_process_end() noexcept {
  [[maybe_unused]] static const int registered =
      std::atexit([] { detail::process_ends_flag.store(true, std::memory_order_relaxed); });
}

}  // namespace reprise::support
