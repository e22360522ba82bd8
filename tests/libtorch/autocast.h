// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>

#include <optional>

namespace reprise::libtorch::test {

/// Autocast on the host device as long as it lives, as `torch.autocast` does it: the kept casts are forgotten at the
/// end.
class Autocast {
 public:
  explicit Autocast(std::optional<torch::Dtype> type = {})
      : type_before_(at::autocast::get_autocast_dtype(at::kPrivateUse1)) {
    at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
    if (type) at::autocast::set_autocast_dtype(at::kPrivateUse1, *type);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_dtype(at::kPrivateUse1, type_before_);
    at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::ScalarType type_before_;
};

}  // namespace reprise::libtorch::test
