// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "breakable/breaks.h"
#include "memory/lifetime/last_launch.h"
#include "reprise/breakable.h"

namespace reprise {

/// The implementation of a BreakableGraph; calls underway share it, so that the object may end within them.
///
/// `mutex` is held by a replay from its beginning to its end; `runner` is its thread, or the one that captures.
struct BreakableGraph::Impl {
  enum class State { empty, capturing, ready };

  /// The implementation of an object that was not moved from.
  static std::shared_ptr<Impl> of(const std::shared_ptr<Impl>& impl, const char* call);

  void require(const char* call, State expected) const;
  /// Refused within an eager part, on the thread that runs it.
  void refuse_within(const char* call) const;
  void require_ready(const char* call) const { require(call, State::ready); }

  void capture(const GraphOptions& wanted, const CaptureBody& body, const void* frame);
  void record(const GraphOptions& options, const CaptureBody& body, const StreamRef& run, const void* frame);
  void replay(const StreamRef& stream);
  void replay_last(const StreamRef& stream);  // the last segment, if it has nodes
  void make_empty() noexcept;
  /// The reports of all segments as one; nullopt if there is none.
  std::optional<CaptureReport> whole_report() const;

  std::mutex mutex;
  std::atomic<std::thread::id> runner{};
  std::atomic<State> state{State::empty};
  std::string name;
  memory::LastLaunch last_launch;
  breakables::Breaks breaks;
  CUDAGraph last;  // the segment behind all breaks; the first that ends
  bool last_has_nodes = false;
  std::size_t nodes = 0;
  std::optional<CaptureReport> report;
};

}  // namespace reprise
