// SPDX-License-Identifier: Apache-2.0
#include "memory/framework_cache.h"

#include "backend/check.h"
#include "backend/framework.h"

namespace reprise::memory {

void empty_framework_cache(const Device& device) noexcept {
  const backend::Framework* const framework = backend::installed_framework();
  if (framework == nullptr) return;
  const backend::RelaxedCaptureMode relaxed(device.backend());
  framework->empty_cache(device);
}

}  // namespace reprise::memory
