// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "reprise/device.h"
#include "reprise/error.h"

/// \file
/// The simulated devices: their options, and failures on demand: a chosen call of a simulated device fails, so that a
/// program can test what it does then.

namespace reprise {

/// What the simulated devices are like. The environment variables are read once, at the first use of a device.
struct HostDeviceOptions {
  int devices = 1;                                  ///< how many, 1 to 16; `REPRISE_HOST_DEVICES`
  std::size_t memory_bytes = std::size_t{4} << 30;  ///< memory of each, in bytes; `REPRISE_HOST_MEMORY`
  /// Device memory cannot be touched unless an operation of the device is executing: a host read or write of it ends
  /// the process with the address, the block it lies in and the stack. `REPRISE_HOST_PROTECT=1`. Slow: page tables
  /// are changed around operations.
  bool protect = false;
  /// Looks for races: two operations that touch the same memory, one of them writing, that nothing orders. Each pair is
  /// reported to the sink of warnings, with what would order it; docs/host-device.md says what is seen and what is not.
  /// `REPRISE_HOST_RACES=1`.
  bool check_races = false;
  /// Not set: work runs on threads, several operations at once. A seed: nothing runs by itself, one operation runs at a
  /// time, on a thread that waits for work or asks whether it is done, and the seed decides on the order among those
  /// that the streams, events and graphs leave open. In a program with one thread a seed gives the same order each
  /// time. `REPRISE_HOST_SCHEDULER=threads`, or the seed.
  std::optional<std::uint64_t> scheduler_seed = {};
};

/// Sets the options by program instead of by environment, before any device is used.
/// \throws UsageError if a device is in use already, or a value is out of range.
void configure_host_devices(const HostDeviceOptions& options);

/// A call of the simulated devices that is to fail.
struct HostFailure {
  /// The kind of the call, by CUDA's name or by this library's: `cuMemAlloc` or `memory_allocate`.
  std::string call;
  /// What it returns. Any code but success, whether or not the driver's call could return it.
  Result code = Result::unknown;
  /// Which one: 1 is the next call of the kind, counted from when the failure was injected, over all threads.
  std::uint64_t nth = 1;
  /// Where: only calls of this host device count and fail. Not given: of any host device.
  std::optional<Device> device = {};
};

/// Lets one call of the simulated devices fail, once: it is not made, has no effect on memory, streams or captures, and
/// returns the code; the error detail says that the failure was injected. All other calls are made.
///
///     const InjectedFailure failure({.call = "cuGraphInstantiateWithParams", .code = Result::out_of_memory});
///     EXPECT_THROW(capture(graph, {}, body), BackendError);
///     EXPECT_TRUE(failure.happened());
///
/// The environment variable `REPRISE_HOST_FAIL` does the same from the first use of a device on: a list with commas of
/// `call[:nth[:code]]`, for example `cuMemAlloc,cuMemFree:2:launch_failure`. The code is a name of Result, CUDA's name
/// of it or the number, and `unknown` if it is not given.
///
/// Any number can be injected at once. Every function may be called from any thread.
class InjectedFailure {
 public:
  /// From now on.
  /// \throws UsageError if there is no such call, the code is success, `nth` is 0, or the device is no host device.
  explicit InjectedFailure(const HostFailure& failure);
  /// Nothing fails any more for this object.
  ~InjectedFailure();
  InjectedFailure(const InjectedFailure&) = delete;
  InjectedFailure& operator=(const InjectedFailure&) = delete;

  /// Has the call come, and did it fail?
  bool happened() const noexcept;

 private:
  std::uint64_t id_;
};

}  // namespace reprise
