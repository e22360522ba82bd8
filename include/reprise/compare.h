// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reprise/capture.h"
#include "reprise/detail/export.h"
#include "reprise/graph_diff.h"
#include "reprise/stream.h"

/// \file
/// The first node at which a captured graph and its program differ, found by executing both.

namespace reprise {

/// The kind of the first difference between a graph and its program.
enum class FirstDifferenceKind {
  node,  ///< one of the two has no such node, or one of another type, or the dependencies contradict
  /// The graph uses memory that was freed; neither node was executed. So is a copy from or to pageable memory of the
  /// host where the new capture has memory that the runtime knows, such as pinned memory: freed pinned memory looks the
  /// same, and a copy that read it would end the process.
  stale_pointer,
  destination,     ///< both write, but not to the same memory; neither node was executed
  result,          ///< both wrote the same memory, with different bytes
  not_repeatable,  ///< the node left other bytes when it was executed again, so that nothing can be compared with it
};

/// The first difference between a graph and a new capture of its body. A value; addresses are not dereferenced.
struct REPRISE_EXPORT FirstDifference {
  FirstDifferenceKind kind = FirstDifferenceKind::result;
  std::optional<ComparedNode> first = {};   ///< in the graph; nullopt if only the new capture has the node
  std::optional<ComparedNode> second = {};  ///< in the new capture; nullopt if only the graph has it
  /// The bytes that differ, from the first to the last one; of stale_pointer the address that the graph uses, and of
  /// destination the first range of which the address differs. Null for `node`.
  const void* address = nullptr;
  const void* second_address = nullptr;  ///< where the new capture has it
  std::size_t bytes = 0;
  /// The first aligned 4 bytes that differ, in hexadecimal, as an integer and as a float32; of `result` only.
  std::string first_value = {}, second_value = {};
  std::vector<GraphDifference> parameters = {};  ///< how the parameters of the two nodes differ, as diff() lists them

  /// The node, what differs and where, and a line for each parameter that differs.
  std::string str() const;
};

/// Result of compare(). A value without references to other objects.
struct REPRISE_EXPORT Comparison {
  std::optional<FirstDifference> difference = {};
  /// All parameters and dependencies that differ, as diff() lists them. Without a `difference`, none of them changed
  /// what the nodes wrote this time.
  std::vector<GraphDifference> parameters = {};
  std::size_t nodes = 0;                ///< nodes of the graph that were executed and compared
  std::size_t saved_bytes = 0;          ///< memory that was saved and restored
  std::vector<std::string> notes = {};  ///< what was not compared and why, each a sentence

  bool same() const noexcept { return !difference; }
  /// Several lines, each ended by a newline.
  std::string str() const;
};

/// Finds the first node at which a graph does not do what its body does now: captures `body` again, executes both
/// graphs node by node with the same memory at their beginning, and compares what each node wrote.
///
/// The new capture has the options of the last one, without `stream`, `warmup`, `hooks` and `check_frozen_values`, and
/// a pool of its own. It is destroyed in the end: a Buffer that `body` hands out is then one of the new capture's pool.
///
/// Nodes are executed one after another, in an order that the edges of both graphs allow. Child graphs are executed by
/// their nodes, a conditional node together with what sets its condition; events are neither recorded nor waited for.
/// Host functions run each time, and what they change in memory of the host stays. Random numbers are those of the last
/// replay of the graph, in both, and no generator advances. Values are those of the templates; disabled nodes stay
/// disabled.
///
/// The writes of a node are known for kernels of this library, among them all operators of libtorch on the host device,
/// and for copies and sets. After any other kernel or host function, all memory is compared that parameters of the two
/// graphs lead to, and that their captures allocated. What lies behind pointers in memory is not found. Memory that a
/// capture allocated corresponds to the allocation with the same number of the other capture; a pointer in memory to
/// one equals a pointer to the other. For CUDA tensors of libtorch, segments of its allocator correspond: those that
/// nodes of both graphs use in the same place. Segments that nodes use in different ways, as in a pool that other
/// graphs filled before, are not compared; a note gives their number.
///
/// Memory that nodes may write is copied to the host before, and back at the end, also if an exception is thrown; no
/// other work may use it meanwhile. Cost: host memory for it, and up to twice as much more while a difference is
/// located; one executable for each node; for each node of both graphs a launch, a wait, and a copy of
/// what it wrote to the host, all compared memory for kernels of other code; launches of both up to the first
/// difference once more.
///
/// Waits for the device; no capture of this library begins meanwhile, and replays of the graph by other threads wait.
/// \param graph must have its template. Nothing about it is changed.
/// \param body what the graph was captured from, runs as by capture().
/// \param stream on which the body is captured again, of the device of the graph; nullopt: an internal one.
/// \throws UsageError if the graph is empty, in a capture or without a template, within a hook of it, if `body` is
///         empty or the stream is of another device, while a capture of this library is underway, for a CUDA device
///         where libtorch has another allocator than its own; if a node cannot be executed alone: one that allocates or
///         frees memory in the order of a stream, and one whose parameters the driver does not provide in a graph that
///         it does not clone. What capture() throws. BackendError if the runtime fails.
REPRISE_EXPORT Comparison compare(const CUDAGraph& graph, CaptureBody body,
                                  const std::optional<StreamRef>& stream = {});

}  // namespace reprise
