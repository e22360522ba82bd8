// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/error.h"

/// \file
/// Input liveness: what a graph reads and writes besides its own memory, and whether that is still there.

namespace reprise {

/// Which memory counts as an input of a graph (`GraphOptions::liveness`).
enum class Liveness {
  /// That of CachingAllocator: Buffer, and whatever else came from it; with the component `libtorch` that of tensors,
  /// too. No call of the runtime per replay.
  allocator,
  /// Also what came from the driver: `cudaMalloc`, pinned and managed memory. One query for each allocation and replay.
  all,
};

/// Memory that a graph uses and does not own, found in the parameters of its nodes. A value: it refers to nothing.
struct GraphInput {
  const void* address = nullptr;        ///< where the block begins, also if the graph uses a part of it
  std::size_t bytes = 0;                ///< of the whole block; of CachingAllocator's, as it rounded it
  std::vector<std::string> nodes = {};  ///< what uses it, for example "kernel Scale (node 3)"; nodes count from 0
  bool retained = false;                ///< does the graph keep it (`GraphOptions::retain_inputs`)?
  /// The stack of its allocation, a line each, as in CaptureReport::Call; empty unless record_allocation_stacks() was
  /// on by then.
  std::vector<std::string> created = {};
};

/// An input that is not there any more.
struct DeadInput : GraphInput {
  std::vector<std::string> freed = {};  ///< the stack of the free, likewise
  bool given_out_again = false;         ///< has somebody else its memory now, or a part of it?
};

/// A replay was refused, because memory that the graph uses was freed. Nothing was launched, and the graph stays as it
/// was: each further replay is refused likewise, since what was freed does not come back.
class DeadInputError : public Error {
 public:
  /// \param what the whole text.
  /// \param inputs those that are dead.
  DeadInputError(const std::string& what, std::vector<DeadInput> inputs)
      : Error(what), inputs_(std::make_shared<const std::vector<DeadInput>>(std::move(inputs))) {}

  /// Those that are dead, all of them, by address. They live as long as this exception or a copy of it.
  const std::vector<DeadInput>& inputs() const noexcept { return *inputs_; }

 private:
  std::shared_ptr<const std::vector<DeadInput>> inputs_;  // so that copying an exception cannot throw
};

/// From now on CachingAllocator keeps the stack of each allocation, and that of the free of what a graph uses, for
/// DeadInputError; or does so no more. Off at first, unless the environment has `REPRISE_MEMORY_STACKS=1`: a stack
/// takes tens of microseconds. Of all devices. Thread-safe.
void record_allocation_stacks(bool on);

}  // namespace reprise
