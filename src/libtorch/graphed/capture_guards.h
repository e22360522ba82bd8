// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>
#include <utility>
#include <vector>

#include "graph/internal_streams.h"
#include "reprise/stream.h"

// What is put aside while callables are warmed up and captured, and is as before at the end of the scope.

namespace reprise::libtorch {

/// An internal stream that is current, after the work of the one that was, which continues after it. The same one each
/// time, so that what libraries and allocators keep for a stream is kept once.
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

/// Autocast keeps no casts: one that was made in a capture would be used outside of it.
class NoAutocastCache {
 public:
  NoAutocastCache();
  ~NoAutocastCache();
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  bool before_;
};

/// No autocast on a type of device.
class NoAutocast {
 public:
  explicit NoAutocast(c10::DeviceType type);
  ~NoAutocast();
  NoAutocast(const NoAutocast&) = delete;
  NoAutocast& operator=(const NoAutocast&) = delete;

 private:
  c10::DeviceType type_;
  bool before_;
};

/// Parameters without their hooks and without the nodes that accumulate their gradients. A hook that ran in the capture
/// would run again at each backward, on what it had changed already. A node remembers the stream that it was made on:
/// one that eager work has left behind would draw that stream into the capture, and one that the capture left behind
/// would draw the capture's stream into later work.
class QuietLeaves {
 public:
  explicit QuietLeaves(const std::vector<at::Tensor>& leaves);
  ~QuietLeaves();
  QuietLeaves(const QuietLeaves&) = delete;
  QuietLeaves& operator=(const QuietLeaves&) = delete;

 private:
  struct Leaf {
    at::Tensor tensor;
    std::shared_ptr<torch::autograd::Node> accumulator;
    std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>> hooks;
  };
  std::vector<Leaf> leaves_;
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
