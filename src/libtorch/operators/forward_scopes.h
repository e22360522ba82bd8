// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/device.h"

namespace reprise::libtorch {

/// Which scopes of the class `annotate` the nodes of autograd were made in, during one capture: what they do in a
/// backward pass is annotated likewise, with `pass=backward` besides.
///
/// A node of autograd has the number of the thread that made it and a number in the order of that thread's nodes: it is
/// enough to know from which number on a thread was in which scope.
///
///     open -> ended    scopes that are entered later are none of this capture
///
/// Known to all backward passes from open() until it is destroyed. Thread-safe.
class ForwardScopes {
 public:
  static std::shared_ptr<ForwardScopes> open(DeviceType type, std::uint64_t capture_id);
  void end() noexcept;

  /// As Framework::annotation_changed().
  static void annotation_changed(DeviceType type, std::uint64_t capture_id, const Annotation& now) noexcept;
  /// What a node of autograd was made in; empty if nobody knows of a scope.
  static Annotation of(std::uint64_t thread, std::uint64_t number);

 private:
  ForwardScopes(DeviceType type, std::uint64_t capture_id) : type_(type), capture_id_(capture_id) {}

  using Boundaries = std::map<std::uint64_t, std::shared_ptr<const Annotation>>;  // by the first number; null: none

  const DeviceType type_;
  const std::uint64_t capture_id_;
  bool ended_ = false;
  std::map<std::uint64_t, Boundaries> threads_;
};

/// While it lives, backward passes in captures are annotated. Thread-safe.
class BackwardAnnotations {
 public:
  BackwardAnnotations();
  ~BackwardAnnotations();
  BackwardAnnotations(const BackwardAnnotations&) = delete;
  BackwardAnnotations& operator=(const BackwardAnnotations&) = delete;
};

}  // namespace reprise::libtorch
