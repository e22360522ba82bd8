// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/autocast_cache.h"

#include <ATen/autocast_mode.h>

#include <utility>

#include "reprise/error.h"

namespace reprise::libtorch {

NoAutocastCache::NoAutocastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_cache_enabled(false);
}

NoAutocastCache::~NoAutocastCache() {
  at::autocast::set_autocast_cache_enabled(before_);
}

// Enters one more region, so that none that ends in the capture is the outermost one, whose end clears the cache. A
// capture in mode `relaxed` may end on another thread, where that could not be undone.
void AutocastListener::started(captures::Capture& capture) {
  if (capture.mode() == CaptureMode::relaxed) return;
  level_ = Level{std::this_thread::get_id(), at::autocast::increment_nesting() - 1};
}

void AutocastListener::leave() noexcept {
  const std::optional<Level> level = std::exchange(level_, std::nullopt);
  if (!level) return;
  if (level->thread != std::this_thread::get_id()) {
    warn(
        "A capture was abandoned on another thread than it began on. Regions of autocast on that thread keep their "
        "casts of weights from now on. Abandon a capture on its own thread, or "
        "call at::autocast::clear_cache() when weights have changed.");
    return;
  }
  // A region that was there before has ended in the capture.
  if (at::autocast::decrement_nesting() == 0 && level->regions > 0) at::autocast::clear_cache();
}

}  // namespace reprise::libtorch
