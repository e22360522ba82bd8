// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/captures_underway.h"
#include "reprise/device.h"

// Which captures of this library are underway in the process.
//
// Only the library's own captures are known. One that somebody began with raw driver calls cannot be asked for ahead
// of time: synchronising the device breaks it (900), and so does replaying a graph on its stream.

namespace reprise::graphs {

/// Is a capture of this library underway, on any thread and device? One relaxed load: cheap enough for every replay,
/// and exact for a caller that knows of the capture, because it began it or was told by the thread that did.
inline bool any_capture_underway() noexcept {
  return backend::captures_underway.load(std::memory_order_relaxed) != 0;
}

/// Counts as a capture that is underway. Made before the runtime begins to capture, destroyed after it ended; waits
/// while another thread is in synchronize_if_no_capture().
class RegisteredCapture {
 public:
  RegisteredCapture();
  ~RegisteredCapture();
  RegisteredCapture(const RegisteredCapture&) = delete;
  RegisteredCapture& operator=(const RegisteredCapture&) = delete;
};

/// Waits for the device and gives its cached memory back to the driver, unless a capture is underway: it would be
/// broken by the wait. No capture can begin meanwhile.
/// \throws BackendError if the device cannot be synchronised; 900 if somebody else is capturing on it.
void synchronize_if_no_capture(Device device);

}  // namespace reprise::graphs
