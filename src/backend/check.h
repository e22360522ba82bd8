// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "reprise/detail/export.h"
#include "reprise/error.h"

// The one way from a backend's result to an exception, and its twin for destructors.

namespace reprise::backend {

/// Explanation of a failure beyond its code, in sentences; may be empty. Reads the driver's log if that may have an
/// entry, which it returns only once: call this once for each failure.
std::string detail_of(const Backend& backend, const Result& result);

/// Throws BackendError with the call's name, the code, CUDA's name for it and what the backend knows beyond it.
/// \param more what the caller knows beyond that, as "graph `step`"; may be empty.
[[noreturn]] REPRISE_EXPORT_INTERNAL void raise(const Backend& backend, Call call, const Result& result,
                                                SourceLocation where, std::string_view more = {});

/// Passes success; anything else becomes a BackendError. For a result that was looked at first; see Checked below.
inline void check(const Backend& backend, Call call, const Result& result,
                  SourceLocation where = SourceLocation::current()) {
  if (result.failed()) [[unlikely]]
    raise(backend, call, result, where);
}

/// Throws BackendError for a call of the device that this library refuses before it is made.
[[noreturn]] void raise_refused(Call call, ErrorCode result, std::string detail, SourceLocation where);

/// True for the code of a call of CUDA that came after the driver had shut down, at the end of the process. No work
/// runs any more, and what was to be released is gone.
bool came_after_the_driver(const Backend& backend, ErrorCode code) noexcept;

/// Passes an error to the warning sink, unless the call was to release what is gone.
REPRISE_EXPORT_INTERNAL void warn_of(const Backend& backend, Call call, const Result& result,
                                     SourceLocation where) noexcept;

/// Anything but success goes to the warning sink. Returns whether it was success. For a result that was looked at
/// first; see WarnOnError below.
inline bool warn_on_error(const Backend& backend, Call call, const Result& result,
                          SourceLocation where = SourceLocation::current()) noexcept {
  if (result.failed()) [[unlikely]]
    warn_of(backend, call, result, where);
  return !result.failed();
}

// The parameters of a call of calls.def, and behind them the place that makes it.
#define REPRISE_WITH_PLACE(...) (__VA_ARGS__ __VA_OPT__(, ) SourceLocation where = SourceLocation::current())

/// A backend's calls, checked: anything but success becomes a BackendError with the caller's place. Refers to the
/// backend, and is as cheap as a reference to it.
///
///     const Checked runtime(device.backend());
///     runtime.stream_wait_event(stream, event, use);
///     return runtime.allowing(ErrorCode::not_ready).stream_query(stream);
///
/// Every call returns whether it was a success, which is true unless another code is allowed.
class Checked {
 public:
  explicit Checked(Backend& backend) noexcept : Checked(backend, ErrorCode::success) {}
  /// The same, except that a call with this code returns false.
  Checked allowing(ErrorCode code) const noexcept { return Checked(backend_, code); }

#define REPRISE_CALL(name, cuda, parameters, arguments)        \
  bool name REPRISE_WITH_PLACE parameters const {              \
    return passes(Call::name, backend_.name arguments, where); \
  }
#include "backend/calls.def"

  // Queries that return what was found; nothing where another code is allowed, and came.
  std::vector<GraphNodeHandle> nodes_of(GraphHandle graph, SourceLocation where = SourceLocation::current()) const {
    std::vector<GraphNodeHandle> nodes;
    graph_nodes(graph, &nodes, where);
    return nodes;
  }
  std::vector<Edge> edges_of(GraphHandle graph, SourceLocation where = SourceLocation::current()) const {
    std::vector<Edge> edges;
    graph_edges(graph, &edges, where);
    return edges;
  }
  NodeType type_of(GraphNodeHandle node, SourceLocation where = SourceLocation::current()) const {
    NodeType type = NodeType::empty;
    graph_node_type(node, &type, where);
    return type;
  }
  PointerInfo info_of(const void* address, SourceLocation where = SourceLocation::current()) const {
    PointerInfo info;
    pointer_info(address, &info, where);
    return info;
  }

 private:
  Checked(Backend& backend, ErrorCode allowed) noexcept : backend_(backend), allowed_(allowed) {}

  bool passes(Call call, const Result& result, SourceLocation where) const {
    if (result.failed() && result != allowed_) [[unlikely]]
      raise(backend_, call, result, where);
    return !result.failed();
  }

  Backend& backend_;
  ErrorCode allowed_;
};

/// The twin of Checked for destructors: anything but success goes to the warning sink. Calls return whether it was
/// success.
class WarnOnError {
 public:
  explicit WarnOnError(Backend& backend) noexcept : backend_(backend) {}

#define REPRISE_CALL(name, cuda, parameters, arguments)                         \
  bool name REPRISE_WITH_PLACE parameters const noexcept {                      \
    return warn_on_error(backend_, Call::name, backend_.name arguments, where); \
  }
#include "backend/calls.def"

 private:
  Backend& backend_;
};

#undef REPRISE_WITH_PLACE

/// Puts the calling thread into relaxed capture mode until the end of the scope: the library's own allocations, frees
/// and queries then break no capture.
class RelaxedCaptureMode {
 public:
  explicit RelaxedCaptureMode(Backend& backend) noexcept : backend_(backend), exchanged_(exchange()) {}
  ~RelaxedCaptureMode() {
    if (exchanged_) exchange();
  }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

 private:
  // A failure is reported and the exchange retried once: otherwise the thread's mode would never be restored.
  bool exchange() noexcept { return try_exchange() || try_exchange(); }
  bool try_exchange() noexcept { return backend_.thread_exchange_capture_mode(&mode_); }

  const WarnOnError backend_;
  CaptureMode mode_ = CaptureMode::relaxed;
  const bool exchanged_;  // after mode_, which the first exchange needs
};

}  // namespace reprise::backend
