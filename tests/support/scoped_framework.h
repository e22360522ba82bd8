// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/framework.h"

namespace reprise::test {

/// A framework that is installed until the end of the scope, in place of the present one, if any.
class ScopedFramework {
 public:
  explicit ScopedFramework(const backend::Framework& framework)
      : before_(backend::framework_detail::installed.exchange(nullptr)) {
    backend::install_framework(framework);
  }
  ~ScopedFramework() { backend::framework_detail::installed.store(before_); }
  ScopedFramework(const ScopedFramework&) = delete;
  ScopedFramework& operator=(const ScopedFramework&) = delete;

 private:
  const backend::Framework* before_;
};

}  // namespace reprise::test
