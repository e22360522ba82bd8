// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "reprise/capture_report.h"
#include "reprise/liveness.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

/// \file
/// Options of captures: where and how a capture is made, and how its executable graph is.

namespace reprise {

/// How an executable graph is made; CUDA's `cudaGraphInstantiateFlag...`. Can be combined with `|`.
enum class InstantiateFlags : unsigned {
  none = 0,
  auto_free_on_launch = 1,  ///< memory that the graph allocated and did not free is freed before the next launch
  upload = 2,               ///< upload to the device at once, on the stream of the capture
  device_launch = 4,        ///< the graph can be launched from the device
  use_node_priority = 8,    ///< nodes run with the priority of the streams that they were captured on
};
constexpr InstantiateFlags operator|(InstantiateFlags a, InstantiateFlags b) {
  return static_cast<InstantiateFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr InstantiateFlags operator&(InstantiateFlags a, InstantiateFlags b) {
  return static_cast<InstantiateFlags>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// How a capture is made.
struct GraphOptions {
  /// The pool for memory allocated in the capture: an id of graph_pool_handle() or of another graph's pool(), whose
  /// pool is then shared. The default id: a private pool of this graph.
  MempoolId pool = {};
  /// The stream to capture on. nullopt: capture_begin() uses the current stream; the scope `graph` uses an internal
  /// one, the lowest-numbered of the current device that is not capturing.
  std::optional<StreamRef> stream = {};
  /// Which calls are allowed during the capture. `global` as in PyTorch; `thread_local_` where other threads use the
  /// device.
  CaptureErrorMode capture_error_mode = CaptureErrorMode::global;
  /// How the executable graph is made.
  InstantiateFlags instantiate_flags = InstantiateFlags::none;
  /// A capture without any work is an error unless this is set: it nearly always means that the work went to another
  /// stream.
  bool allow_empty = false;
  /// How much is recorded about calls made during the capture, for capture_report().
  ReportDetail report = ReportDetail::standard;
  /// Scopes of the class `annotate` name the nodes created in them, for CUDAGraph::annotations(), reports, errors and
  /// tools.
  bool enable_annotations = false;
  /// Frees the template's host memory once the graph is instantiated. Calls that need the template then throw
  /// UsageError: debug_dump(), changing parameters. Not together with KeepGraph::yes.
  bool discard_template = false;
  /// Checks before each replay that the memory which the graph uses and does not own was not freed; replay() throws
  /// DeadInputError otherwise. What is found and what is not: docs/input-liveness.md.
  bool check_input_liveness = false;
  /// Which memory counts as an input, for check_input_liveness and retain_inputs.
  Liveness liveness = Liveness::allocator;
  /// Keeps memory of CachingAllocator that the graph uses alive as long as the graph, instead of checking it: a freed
  /// block counts as allocated until the last such graph is gone. Memory of the driver cannot be kept; with
  /// Liveness::all it is checked.
  bool retain_inputs = false;
  /// Captures the body twice; only places with an address in both captures count as inputs. Uninitialised words of a
  /// kernel's parameters, which look like addresses by chance, differ between captures. The first graph is
  /// discarded. For check_input_liveness and retain_inputs, with capture() only.
  bool confirm_by_second_capture = false;
};

/// Which call instantiates a captured graph, and whether its template can be accessed.
enum class KeepGraph : bool {
  no = false,  ///< capture_end() instantiates; raw_cuda_graph() is refused
  yes = true,  ///< raw_cuda_graph() returns the template; instantiate() or the first replay() instantiates
};

}  // namespace reprise
