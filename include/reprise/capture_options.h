// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprise/capture_report.h"
#include "reprise/frozen_values.h"
#include "reprise/hooks.h"
#include "reprise/liveness.h"
#include "reprise/memory.h"
#include "reprise/random.h"
#include "reprise/stream.h"

/// \file
/// Options of captures: where and how a capture is made, and how its executable graph is.

namespace reprise {

/// Flags for making an executable graph; CUDA's `cudaGraphInstantiateFlag...`. Can be combined with `|`.
enum class InstantiateFlags : unsigned {
  none = 0,
  auto_free_on_launch = 1,  ///< what nodes allocated and did not free is freed by the next launch and with the graph
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

/// Access to the template of a captured graph, and the call that instantiates it.
enum class KeepGraph : bool {
  no = false,  ///< capture_end() instantiates; raw_cuda_graph() is refused
  yes = true,  ///< raw_cuda_graph() returns the template; instantiate() or the first replay() instantiates
};

/// Treatment of memory that a graph uses and does not own: GraphOptions::inputs. docs/input-liveness.md says what
/// is found and what is not.
struct InputOptions {
  /// Keeps memory of CachingAllocator that the graph uses alive as long as the graph: a freed block counts as allocated
  /// until the last such graph is gone, also one that is freed while the capture is underway. Memory of the driver
  /// cannot be kept; with Liveness::all it is checked.
  bool retain = false;
  /// Memory that counts as an input.
  Liveness scope = Liveness::allocator;
  /// Allows captured copies from and to local variables that are gone when the capture has ended, and functions of
  /// launch_host() that refer to such variables: addresses in the part of the ending thread's stack whose functions
  /// have returned, which each replay would read or write. Without it such a capture is refused, also where no other
  /// option looks for inputs.
  bool allow_stack = false;
};

/// Options of a capture.
struct GraphOptions {
  /// The pool for memory allocated in the capture: an id of graph_pool_handle() or of another graph's pool(), whose
  /// pool is then shared. The default id: a private pool of this graph.
  ///
  /// Sharing saves memory where one graph's memory is no longer needed when the next one is replayed: the later capture
  /// reuses what the earlier one freed. So graphs of one pool must be replayed in the order of their captures, one
  /// after another on the device, and results must be read before the next replay. Graphs that run at once, or in
  /// another order, need pools of their own.
  MempoolId pool = {};
  /// The stream to capture on. nullopt: capture_begin() uses the current stream; capture() and the scope `graph` use an
  /// internal one, the lowest-numbered of the current device that is not capturing. Memory that a capture frees is
  /// reused by later captures of the same pool on the same stream only: pass one stream, or none, for graphs that share
  /// a pool.
  std::optional<StreamRef> stream = {};
  /// Calls that are allowed during the capture. `global` as in PyTorch; `thread` where other threads use the device.
  CaptureMode capture_error_mode = CaptureMode::global;
  /// Flags for making the executable graph; by default as in PyTorch. `device_launch` cannot be combined with
  /// `auto_free_on_launch`.
  InstantiateFlags instantiate_flags = InstantiateFlags::auto_free_on_launch | InstantiateFlags::use_node_priority;
  /// Keeps the template accessible, as the constructor of CUDAGraph does.
  KeepGraph keep_graph = KeepGraph::no;
  /// Hooks of this capture and its graph, as by CUDAGraph::add_hooks(); removed when the graph is empty again.
  GraphHooks hooks = {};
  /// Generators that must not be set during the capture, as by CUDAGraph::register_generator_state(), and whose state a
  /// warm-up restores.
  std::vector<Generator> generators = {};
  /// Names the graph in errors, warnings and reports. Any text; empty: no name.
  std::string name = {};
  /// The body runs this many times before the capture, on the stream of the capture, for libraries that allocate or
  /// choose algorithms at first use. The runs are real: a training step trains. Afterwards the default generator of the
  /// device (with libtorch, also its own) and `generators` are as before, and cached memory is released unless another
  /// capture is underway. An exception of a run propagates; nothing is captured. With capture() only.
  int warmup = 0;
  /// A capture without any work throws EmptyCaptureError unless this is set: it nearly always means that the work went
  /// to another stream.
  bool allow_empty = false;
  /// Level of detail of what is recorded about calls made during the capture, for capture_report().
  ReportDetail report = ReportDetail::standard;
  /// Scopes of the class `annotate` name the nodes created in them, for CUDAGraph::annotations(), reports, errors and
  /// tools.
  bool enable_annotations = false;
  /// The end of each scope of the class `annotate` sets 4 bytes of pinned memory, so that the host can query how far a
  /// replay has come: CUDAGraph::last_mark(), which errors of CUDAGraph::synchronize() name, too. Implies
  /// `enable_annotations`. Scopes that begin on streams that were forked off have no mark. Costs a memset node for each
  /// scope, up to 4096 of them, and one at the beginning, which clears them.
  bool progress_marks = false;
  /// Frees the template's host memory once the graph is instantiated. Calls that need the template then throw
  /// UsageError: node_count(), nodes(), node(), debug_dump(), time_replay(); annotations() have no ids for profilers.
  /// The template is kept if the graph draws random numbers, whose replays change parameters of its nodes, if a
  /// Parameter was captured, and after CUDAGraph::enable_debug_mode(). Not together with KeepGraph::yes.
  bool discard_template = false;
  /// Checks before each replay that the memory which the graph uses and does not own was not freed; replay() throws
  /// DeadInputError otherwise. Without it, only memory counts that was freed before the end of the capture, at no cost
  /// to other graphs' replays.
  bool check_input_liveness = false;
  /// The memory that is checked, and whether it is kept alive instead.
  InputOptions inputs = {};
  /// Looks for values that were computed on the host and that the graph would repeat in every replay. The body is
  /// captured twice, and between the captures this function does on the host what the program does between two
  /// iterations:
  ///
  ///     reprise::capture({.check_frozen_values = [&] { ++i; }}, [&] { step(i); });
  ///
  /// Parameters that differ between the captures are refused with FrozenValuesError, a body that captures other nodes
  /// the second time with UsageError; then nothing is captured. Where a parameter may contain bytes that no code wrote,
  /// a difference is a warning. `no_next` finds only what the body itself changes. Empty: no check. The function is
  /// called once, on the calling thread, and is not undone: the graph that stays is that of the second capture. Its
  /// exceptions propagate; nothing is captured. With capture() only.
  std::function<void()> check_frozen_values = {};
};

}  // namespace reprise
