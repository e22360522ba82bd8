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
/// Both.
constexpr InstantiateFlags operator|(InstantiateFlags a, InstantiateFlags b) {
  return static_cast<InstantiateFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// What is in both.
constexpr InstantiateFlags operator&(InstantiateFlags a, InstantiateFlags b) {
  return static_cast<InstantiateFlags>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// How a capture is made.
struct GraphOptions {
  /// The memory pool for what is allocated in the capture: an id of graph_pool_handle() or of another graph's pool(),
  /// whose pool is then shared. No id: a pool of the graph's own.
  MempoolId pool = {};
  /// The stream to capture on. Not given: capture_begin() takes the current stream; the scope `graph` takes an
  /// internal one, the lowest-numbered of the current device that is not capturing.
  std::optional<StreamRef> stream = {};
  /// What other calls may do meanwhile. `global` as in PyTorch; `thread_local_` where other threads use the device.
  CaptureErrorMode capture_error_mode = CaptureErrorMode::global;
  /// How the executable graph is made.
  InstantiateFlags instantiate_flags = InstantiateFlags::none;
  /// A capture without any work is an error unless this is set: it nearly always means that the work went to another
  /// stream.
  bool allow_empty = false;
  /// How much the capture finds out about the calls that are made meanwhile, for capture_report().
  ReportDetail report = ReportDetail::standard;
  /// Scopes of the class `annotate` name the nodes that are made in them, for CUDAGraph::annotations(), reports, errors
  /// and tools.
  bool enable_annotations = false;
  /// Frees the template's host memory once the graph is instantiated. What needs the template then refuses:
  /// debug_dump(), changing parameters. Not together with KeepGraph::yes.
  bool discard_template = false;
  /// Before each replay: is the memory still there that the graph uses and does not own? If not, DeadInputError. What
  /// is found and what is not: docs/input-liveness.md.
  bool check_input_liveness = false;
  /// Which memory that is; for check_input_liveness and retain_inputs.
  Liveness liveness = Liveness::allocator;
  /// Memory of CachingAllocator that the graph uses lives as long as the graph, instead of being checked: what its
  /// owner frees counts as allocated until the last such graph is gone. Memory of the driver cannot be kept; with
  /// Liveness::all it is checked.
  bool retain_inputs = false;
  /// The body is captured twice, and only what both captures have in the same place counts as an input: words of a
  /// kernel's parameters that nobody wrote, and that look like addresses by chance, differ. The first graph is thrown
  /// away. For check_input_liveness and retain_inputs; capture() alone can do it.
  bool confirm_by_second_capture = false;
};

/// Who instantiates a captured graph, and whether the user can reach its template.
enum class KeepGraph : bool {
  no = false,  ///< capture_end() instantiates; raw_cuda_graph() is refused
  yes = true,  ///< raw_cuda_graph() gives the template; instantiate() or the first replay() instantiates
};

}  // namespace reprise
