// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/device.h"

namespace reprise::libtorch {

/// The scopes of the class `annotate` in which the nodes of autograd were created during one capture: their work in a
/// backward pass is annotated likewise, with `pass=backward` added.
///
/// A node of autograd has the number of its thread and a sequence number in that thread: so it suffices to record from
/// which number on a thread was in which scope.
///
///     open -> ended    later scopes do not belong to this capture
///
/// Visible to all backward passes from open() until it is destroyed. Thread-safe.
class ForwardScopes {
 public:
  static std::shared_ptr<ForwardScopes> open(DeviceType type, std::uint64_t capture_id);
  void end() noexcept;

  /// As Framework::annotation_changed().
  static void annotation_changed(DeviceType type, std::uint64_t capture_id, const Annotation& now) noexcept;
  /// The annotation in which a node of autograd was created; empty if unknown.
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
