// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>

#include <string>

#include "reprise/libtorch/graphed_callables.h"
#include "tests/libtorch/host_device_test.h"

// What the tests of graphed callables share.

namespace reprise::libtorch::test {

using torch::Tensor;

class GraphedCallables : public OnHostDevice {
 protected:
  Tensor random(torch::IntArrayRef sizes) const { return torch::randn(sizes, device_); }
  Tensor needing_gradient(torch::IntArrayRef sizes) const { return random(sizes).requires_grad_(); }

  torch::nn::Linear linear(int in, int out) const {
    torch::nn::Linear made(in, out);
    made->to(device_);
    return made;
  }

  /// What an expression is refused with; empty if it is not.
  template <class F>
  static std::string refusal(F&& f) {
    try {
      f();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  std::uint64_t allocated_bytes() const {
    const auto& allocator = CachingAllocator::of(Device::parse("host"));
    return allocator.statistics().allocated_bytes;
  }
};

/// Autocast on the host device, as long as it lives.
class Autocast {
 public:
  explicit Autocast(torch::Dtype type = torch::kBFloat16)
      : type_before_(at::autocast::get_autocast_dtype(at::kPrivateUse1)) {
    at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
    at::autocast::set_autocast_dtype(at::kPrivateUse1, type);
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
