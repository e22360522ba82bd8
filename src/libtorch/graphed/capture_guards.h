// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/csrc/autograd/function_hook.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "graph/capture/internal_streams.h"
#include "libtorch/versions/version.h"
#include "reprise/detail/export.h"
#include "reprise/stream.h"

// State that is put aside while callables are warmed up and captured, and restored at the end of the scope.

namespace reprise::libtorch {

/// Makes an internal stream current, ordered after the previous one, which continues after it. The same one each time,
/// so that libraries and allocators keep per-stream state once.
class SideStream {
 public:
  explicit SideStream(const Device& device);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  const StreamRef& ref() const { return stream_.ref(); }

 private:
  StreamRef before_;
  graphs::InternalStream stream_;
  StreamGuard current_;
};

/// True if operators on the calling thread record a history: grad mode is on, and it is not in inference mode.
bool autograd_records();

/// Autocast of a type of device: to a type, or none.
class REPRISE_EXPORT_INTERNAL AutocastTo {
 public:
  AutocastTo(c10::DeviceType device, std::optional<c10::ScalarType> type);
  ~AutocastTo();
  AutocastTo(const AutocastTo&) = delete;
  AutocastTo& operator=(const AutocastTo&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_;
  c10::ScalarType type_before_;
};

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

/// The version counters of tensors, set back at the end of the scope: for tensors whose values are then as before. A
/// history that was recorded before stays valid.
class RestoredVersions {
 public:
  explicit RestoredVersions(const std::vector<at::Tensor>& tensors);
  ~RestoredVersions();
  RestoredVersions(const RestoredVersions&) = delete;
  RestoredVersions& operator=(const RestoredVersions&) = delete;

 private:
  std::vector<std::pair<at::Tensor, std::uint32_t>> tensors_;
};

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
