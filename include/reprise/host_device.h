// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/error.h"

/// \file
/// The simulated devices: their options, and injected failures: a chosen call fails, to test a program's error
/// handling.

namespace reprise {

/// Properties of a HostSimulator. Those of the host devices of the process are set by the environment variables, which
/// are read once, at the first use of a device; `REPRISE_HOST_DEVICES` is their number, 1 to 16.
struct HostDeviceOptions {
  std::size_t memory_bytes = std::size_t{4} << 30;  ///< memory of each, in bytes; `REPRISE_HOST_MEMORY`
  /// Makes device memory inaccessible except during operations of the device: a read or write by other host code ends
  /// the process, and prints the address, its block and the stack. `REPRISE_HOST_PROTECT=1`. Slow: page tables change
  /// around operations.
  bool protect = false;
  /// Reports races: two unordered operations on the same memory, of which at least one writes. Each pair is reported to
  /// the warning sink, with a way to order it. Limits: docs/host-device.md.
  /// `REPRISE_HOST_RACES=1`.
  bool check_races = false;
  /// nullopt: concurrent worker threads. A seed: deterministic; operations run one at a time, inside waits and queries,
  /// in seeded order within what streams, events and graphs allow. In a program with one thread a seed always gives the
  /// same order. `REPRISE_HOST_SCHEDULER=threads`, or the seed.
  std::optional<std::uint64_t> scheduler_seed = {};
};

/// A call of the simulated devices that fails.
struct HostFailure {
  /// The kind of the call, by CUDA's name or by this library's: `cuMemAlloc` or `memory_allocate`.
  std::string call;
  /// The code that it returns. Any code except success, whether or not the driver's call could return it.
  ErrorCode code = ErrorCode::unknown;
  /// 1 is the next call of the kind, counted from the injection, over all threads.
  std::uint64_t nth = 1;
  /// Only calls of this host device count and fail. nullopt: of any host device, those of HostSimulators included.
  std::optional<Device> device = {};
};

/// Makes one call of the simulated devices fail, once: it is not made, has no effect on memory, streams or captures,
/// and returns the code; the error detail says that the failure was injected. All other calls are made.
///
///     const InjectedFailure failure({.call = "cuGraphInstantiateWithParams", .code = ErrorCode::out_of_memory});
///     EXPECT_THROW(capture(graph, body), BackendError);
///     EXPECT_TRUE(failure.happened());
///
/// Any number can be injected at once. Thread-safe.
class REPRISE_EXPORT InjectedFailure {
 public:
  /// \throws UsageError if there is no such call, the code is success, `nth` is 0, or the device is no host device.
  explicit InjectedFailure(const HostFailure& failure);
  /// Removes the failure if it has not happened.
  ~InjectedFailure();
  InjectedFailure(const InjectedFailure&) = delete;
  InjectedFailure& operator=(const InjectedFailure&) = delete;

  /// True once the call has failed.
  bool happened() const noexcept;

 private:
  std::uint64_t id_;
};

}  // namespace reprise
