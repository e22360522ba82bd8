// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "captures/registry.h"
#include "reprise/stream.h"

namespace reprise::breakables {

/// The streams that joined a capture by waits of this library, for texts that name those which were not joined again.
/// Thread-safe.
class Forks {
 public:
  /// Notes forks of a capture that has begun, until its end.
  static std::shared_ptr<Forks> watch(captures::Capture& capture);

  /// A stream waited, and takes part in the capture now.
  void joined(const StreamRef& stream) noexcept;
  void stream_ends(const StreamRef& stream) noexcept;  ///< by the slot
  std::vector<StreamRef> streams() const;              ///< those that were noted

  /// The work that nothing joins to the stream on which the capture began, a sentence each; empty if all is joined. To
  /// be called while it is captured.
  /// \param everything false: looks at the streams that were noted; true: at all nodes, too.
  /// \throws BackendError
  std::vector<std::string> unjoined(const captures::Found& found, bool everything) const;

 private:
  struct Fork {
    StreamRef stream;
    std::vector<std::string> stack;  // of the first wait
  };

  mutable std::mutex mutex_;  // guards the rest
  std::vector<Fork> forks_;
};

}  // namespace reprise::breakables
