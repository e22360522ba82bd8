// SPDX-License-Identifier: Apache-2.0
#include "support/forked.h"

#include <pthread.h>

namespace reprise::support {

void watch_forks() noexcept {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { detail::forked_flag.store(true, std::memory_order_relaxed); });
}

}  // namespace reprise::support
