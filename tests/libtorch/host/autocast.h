// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <optional>

namespace reprise::libtorch::test {

/// Autocast on the host device, or another, as long as it lives, as `torch.autocast` does it: the kept casts are
/// forgotten at the end.
class Autocast {
 public:
  explicit Autocast(std::optional<torch::Dtype> type = {}, c10::DeviceType device = at::kPrivateUse1)
      : device_(device),
        enabled_before_(at::autocast::is_autocast_enabled(device)),
        type_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device_, true);
    if (type) at::autocast::set_autocast_dtype(device_, *type);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_dtype(device_, type_before_);
    at::autocast::set_autocast_enabled(device_, enabled_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_;
  at::ScalarType type_before_;
};

}  // namespace reprise::libtorch::test
