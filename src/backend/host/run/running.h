// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/host/run/work.h"

namespace reprise::backend::host {

/// What texts call an operation, for example "memcpy"; for a kernel, "kernel " before its name.
const char* kind_of(const Work& work) noexcept;

/// Place where an operation was submitted. A value that needs no memory.
struct OperationPlace {
  StreamHandle stream = nullptr;  ///< as passed to the call
  /// Number of the node of a graph, from 0 in the order of creation; in a graph of a node with that node's number, as
  /// "3.1". Null if the operation is no node. Outlives this object.
  const char* node = nullptr;
};

/// Names the operation that the calling thread executes, for the device's error and the fault handler, until the end of
/// the scope.
class RunningOperation {
 public:
  /// The arguments outlive this object.
  RunningOperation(const HostDevice& device, const Work& work, const OperationPlace& place) noexcept;
  ~RunningOperation();
  RunningOperation(const RunningOperation&) = delete;
  RunningOperation& operator=(const RunningOperation&) = delete;

  /// The operation of the calling thread; null if it executes none. For signal handlers, too.
  static const RunningOperation* current() noexcept;

  /// Passes the pieces of the text to `put`, for example "kernel Scale (node 3 of a graph) on stream 0x55d0 of host:0".
  /// Neither allocates nor locks, and
  /// throws what `put` throws.
  void describe(void (*put)(void* sink, const char* piece), void* sink) const;
  std::string str() const;

 private:
  const HostDevice& device_;
  const char* const kind_;
  const char* const name_;
  const OperationPlace& place_;
  const RunningOperation* const outer_;  // by steps: an operation may wait, and so run others
};

/// A number in hexadecimal, with 0x before it, or in decimal digits. Neither allocates nor locks.
struct Digits {
  Digits(std::uintptr_t value, int base) noexcept;
  char text[32];
};

}  // namespace reprise::backend::host
