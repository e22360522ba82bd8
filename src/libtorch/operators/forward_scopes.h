// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "captures/capture.h"
#include "reprise/annotations.h"

namespace reprise::libtorch {

/// The scopes of the class `annotate` in which the nodes of autograd were created during one capture: their work in a
/// backward pass is annotated likewise, with `pass=backward` added.
///
/// A node of autograd has the number of its thread and a sequence number in that thread: so it suffices to record from
/// which number on a thread was in which scope.
///
/// Attached to the capture, and visible to all backward passes from open() until it is destroyed: a graph keeps it.
/// Backward passes are annotated until end(). Thread-safe.
class ForwardScopes {
 public:
  static std::shared_ptr<ForwardScopes> open(captures::Capture& capture);
  /// The capture is over: what the calling thread creates from now on is in none of its scopes. On other threads those
  /// that are still open are forgotten. No-op when called again.
  void end() noexcept;

  /// As FrameworkCaptures::annotation_changed().
  static void annotation_changed(const captures::Capture& capture, const Annotation& now) noexcept;
  /// The annotation in which a node of autograd was created; empty if unknown.
  static Annotation of(std::uint64_t thread, std::uint64_t number);

 private:
  using Boundaries = std::map<std::uint64_t, std::shared_ptr<const Annotation>>;  // by the first number; null: none

  std::map<std::uint64_t, Boundaries> threads_;
  bool underway_ = false;  // the capture, whose backward passes are annotated
};

}  // namespace reprise::libtorch
