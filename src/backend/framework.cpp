// SPDX-License-Identifier: Apache-2.0
#include "backend/framework.h"

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::backend {

void install_framework(const Framework& framework) {
  const Framework* before = nullptr;
  if (!framework_detail::installed.compare_exchange_strong(before, &framework, std::memory_order_acq_rel)) {
    if (before == &framework) return;
    throw UsageError(
        text::format("expected one framework in a process; found {}, where {} was installed before; link the component "
                     "of one of them only.",
                     framework.name(), before->name()));
  }
  framework_detail::hand_over_current_streams(framework);
  framework_detail::hand_over_current_device(framework);
}

}  // namespace reprise::backend
