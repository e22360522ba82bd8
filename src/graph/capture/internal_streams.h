// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/stream.h"

namespace reprise::graphs {

/// An internal stream of a device, borrowed until the end of the scope: the lowest-numbered one that is
/// neither borrowed nor capturing. So a program with one thread always gets the same one, and with it the blocks
/// that earlier captures left in a shared pool; several threads get one each.
///
/// The streams are non-blocking, made on demand, and live as long as the device. Thread-safe.
class REPRISE_EXPORT_INTERNAL InternalStream {
 public:
  /// \throws BackendError if a stream is needed and cannot be made.
  explicit InternalStream(Device device);
  ~InternalStream();
  InternalStream(const InternalStream&) = delete;
  InternalStream& operator=(const InternalStream&) = delete;

  const StreamRef& ref() const noexcept { return stream_; }

 private:
  StreamRef stream_;
};

}  // namespace reprise::graphs
