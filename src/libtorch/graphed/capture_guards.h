// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "libtorch/versions/version.h"

// State that is put aside while callables are warmed up and captured, and restored at the end of the scope.

namespace reprise::libtorch {

/// True if operators on the calling thread record a history: grad mode is on, and it is not in inference mode.
bool autograd_records();

/// Autocast of a type of device: to a type, or none; until the end of the result.
inline auto autocast_to(c10::DeviceType device, std::optional<c10::ScalarType> type) {
  const bool enabled = at::autocast::is_autocast_enabled(device);
  const c10::ScalarType before = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, type.has_value());
  if (type) at::autocast::set_autocast_dtype(device, *type);
  return c10::make_scope_exit([device, enabled, before] {
    at::autocast::set_autocast_dtype(device, before);
    at::autocast::set_autocast_enabled(device, enabled);
  });
}

/// Removes the hooks of parameters and the nodes that accumulate their gradients. A captured hook would run again at
/// each backward, on its own results. A node keeps the stream that it was made on: one from eager work would join that
/// stream to the capture, and one from the capture would join the capture's stream to later work.
class QuietLeaves {
 public:
  /// \param hooks_run leaves hooks where they are, and the nodes that have any: what they start is captured.
  QuietLeaves(const std::vector<at::Tensor>& leaves, bool hooks_run);
  ~QuietLeaves();
  QuietLeaves(const QuietLeaves&) = delete;
  QuietLeaves& operator=(const QuietLeaves&) = delete;

 private:
  struct Leaf {
    at::Tensor tensor;
    version::NodePointer accumulator;
    std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>> hooks;
  };
  const bool hooks_run_;
  std::vector<Leaf> leaves_;
};

/// Writes values back that a tensor had before. \throws what the copy throws.
void write_back(const at::Tensor& tensor, const at::Tensor& values);
void set_version(const at::Tensor& tensor, std::uint32_t version);
void warn_not_restored(const std::exception& error);

/// The values of tensors, and the state of the default generator of a device.
class Restored {
 public:
  Restored(c10::Device device, const std::vector<at::Tensor>& tensors);
  ~Restored();  ///< as restore(), if that was not called or failed; an error becomes a warning
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

  void restore();

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;  // and their values
  at::Generator generator_;
  at::Tensor state_;
  std::uint64_t seed_ = 0, offset_ = 0;
};

}  // namespace reprise::libtorch
