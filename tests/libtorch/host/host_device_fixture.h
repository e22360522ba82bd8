// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>

#include "reprise/libtorch/host_device.h"
#include "reprise/reprise.h"

// What the tests of tensors on the host device share.

namespace reprise::libtorch::test {

/// The first host device of both libraries, and a stream that can be captured.
class OnHostDevice : public ::testing::Test {
 protected:
  OnHostDevice() {
    torch::manual_seed(1);
    torch::set_num_threads(1);  // what the CPU computes here to compare with must not wait for busy cores
  }

  torch::Tensor here(const torch::Tensor& tensor) const { return tensor.to(device_); }

  const torch::Device device_ = host_device();
  const DeviceGuard device_guard_{Device::parse("host")};
  const Stream stream_;
  const StreamGuard stream_guard_{stream_};
};

/// The same values, to the last bit?
inline bool same(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::equal(a.cpu(), b.cpu());
}

}  // namespace reprise::libtorch::test
