// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>

#include "reprise/device.h"
#include "reprise/stream.h"

// Conversion of devices and streams between libtorch and this library.

namespace reprise::libtorch {

/// libtorch's device type for host devices.
inline constexpr c10::DeviceType type_here = c10::DeviceType::PrivateUse1;

/// The host device that a PrivateUse1 device stands for; -1 is the calling thread's current one.
Device host_device_of(c10::Device device);
/// \throws UsageError for the device of a HostSimulator.
c10::Device host_c10_device(const Device& device);
/// The device of tensors whose device is given without an index.
/// \throws UsageError while the device of a HostSimulator is current.
c10::Device current_c10_device();

/// A stream's id in libtorch is its handle; 0 is the legacy default stream.
StreamRef host_stream_of(const c10::Stream& stream);
c10::Stream host_c10_stream(const StreamRef& stream);

/// The calling thread's current stream of a device.
inline StreamRef current_stream_of(c10::Device device) {
  return current_stream(host_device_of(device));
}

/// Registers the guard, with which libtorch sets and queries the current device and stream, and records events.
void register_guard();

}  // namespace reprise::libtorch
