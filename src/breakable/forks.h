// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "captures/registry.h"
#include "reprise/stream.h"

namespace reprise::breakables {

/// The streams that joined a capture by waits of this library: a later segment refuses work for them.
/// Thread-safe.
class Forks {
 public:
  /// Notes forks of a capture that has begun, until its end.
  static std::shared_ptr<Forks> watch(captures::Capture& capture);

  /// A stream waited, and takes part in the capture now.
  void joined(const StreamRef& stream) noexcept;
  void stream_ends(const StreamRef& stream) noexcept;  ///< by the slot
  std::vector<StreamRef> streams() const;              ///< those that were noted

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::vector<StreamRef> streams_;
};

}  // namespace reprise::breakables
