// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/result.h"
#include "backend/types.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"

namespace reprise::backend {

class Monitor;

/// One device of one device runtime, as the CUDA driver shows it: the only way to memory, streams, events, captures and
/// graphs.
///
/// Every call of calls.def stands for a call of the driver API and has the same parameters and effects: same codes,
/// same effect on captures. Nothing is thrown, nothing is checked beyond what the driver checks, and no call has
/// a meaning that the driver could not give it. Where the driver works on the calling thread's current context, a
/// backend works on its own device; it leaves the thread's current context as it was, except that a thread without one
/// may keep that of the device.
///
/// Results are written only on success. Handles are the driver's opaque pointers; streams and events of another device
/// of the same runtime may be passed where the driver allows it. A null stream is this device's legacy default stream;
/// so is the handle 0x1.
///
/// All calls may be made from any thread, at any time. A host function and a user object's destructor must not make
/// any: they get `not_permitted`.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceType type() const noexcept = 0;
  virtual int index() const noexcept = 0;       ///< among the devices of its type; of a HostSimulator, its number
  virtual std::string device_name() const = 0;  ///< `cuDeviceGetName`
  /// Text of the driver's log about the calling thread's last failure; empty if there is none, or it was read already.
  /// For results that may be logged: see Result. (CUDA: the error log of 12.9 and later.)
  virtual std::string logged_error() const { return {}; }
  /// Observer of captures and launches; lives as long as the backend.
  virtual Monitor& monitor() noexcept = 0;

#define REPRISE_CALL(name, cuda, parameters, arguments) virtual Result name parameters = 0;
#include "backend/calls.def"

  /// True for the device of a HostSimulator.
  bool of_simulator() const noexcept {
    return of_simulator_;
  }

 protected:
  explicit Backend(bool of_simulator = false) noexcept : of_simulator_(of_simulator) {}

 private:
  const bool of_simulator_;
};

/// True if streams and events of the one device can be used with the other. The device of a HostSimulator is a runtime
/// of its own.
inline bool same_runtime(const Device& one, const Device& other) noexcept {
  if (one.backend().of_simulator() || other.backend().of_simulator()) return one == other;
  return one.type() == other.type();
}

/// The simulated devices of this process, opened at the first call.
REPRISE_EXPORT_INTERNAL const std::vector<Backend*>& host_backends();

/// The CUDA devices of this process, opened at the first call; none where CUDA's driver is missing, too old or without
/// a device.
REPRISE_EXPORT_INTERNAL const std::vector<Backend*>& cuda_backends();

/// The open host device, or the one of a HostSimulator, that this is a stream of; null if there is none. Not for the
/// handles of default streams (0, 1, 2).
Backend* host_backend_of(StreamHandle stream);

/// The CUDA device that this is a stream of, which must be of CUDA. Null if it is not known: there is no CUDA device;
/// or there are several, and the stream is being captured, which the driver's query would break, or the driver has no
/// such query (before 12.8). Not for the handles of default streams.
Backend* cuda_backend_of(StreamHandle stream);

/// Why there are no CUDA devices, without a full stop; empty if there are.
REPRISE_EXPORT_INTERNAL const std::string& cuda_unavailable_reason();

}  // namespace reprise::backend
