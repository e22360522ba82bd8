// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/device.h"
#include "reprise/error.h"

/// \file
/// Failures on demand: a chosen call of a simulated device fails, so that a program can test what it does then.

namespace reprise {

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
