// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/detail/export.h"
#include "reprise/handles.h"

/// \file
/// Annotations: scopes that name what is captured in them, for reports, errors, timings and tools.

namespace reprise {

/// The keys and values that scopes attach to the nodes created in them, sorted by key. `annotate("phase")` sets the key
/// `name`.
using Annotation = std::map<std::string, std::string>;

/// A node of a captured graph with its annotation.
struct AnnotatedNode {
  GraphNodeHandle node = nullptr;  ///< of the template, or of a child graph or body in it
  /// Among all nodes of the template, in order of creation; of a node in a child graph or body, that of the enclosing
  /// node.
  std::size_t index = 0;
  std::string number = {};     ///< GraphNode::number(): "3"; in the child graph of node 3 "3.0", "3.1", ...
  Annotation annotation = {};  ///< never empty
  /// The number by which profilers name the node in replays of the present executable: `graphNodeId` of CUPTI's
  /// records, `graph node id` in PyTorch's traces. nullopt if it is not known.
  std::optional<std::uint64_t> profiler_id = {};
  std::string no_profiler_id = {};  ///< why it is not known, as a sentence; empty if it is
};

/// For internal use.
namespace annotation_detail {
/// The number of captures with annotations underway in the process.
REPRISE_EXPORT extern std::atomic<int> annotated_captures;
}  // namespace annotation_detail

/// A scope that annotates the nodes created in it, in a capture with GraphOptions::enable_annotations:
///
///     CUDAGraph graph = capture({.enable_annotations = true}, [&] {
///       const annotate forward("forward");
///       for (int layer = 0; layer < layers; ++layer) {
///         const annotate scope({{"layer", std::to_string(layer)}});
///         ...  // these nodes have name=forward, layer=...
///       }
///     });
///
/// Applies to the capture of the calling thread's current stream at its beginning. Outside of captures, in one
/// without annotations, or in a broken one, it does nothing; while no capture with annotations is underway in the
/// process, it costs one relaxed load.
///
/// All nodes created between its beginning and its end are annotated, by any thread, stream of the capture or library.
/// Scopes of a thread nest; inner keys override outer ones. When several threads are in scopes of one capture at once,
/// a node belongs to the thread whose stream led to it; a node not yet reached by any thread's stream belongs to the
/// thread that enters or leaves a scope next.
///
/// Leaving a scope after its capture ended or failed does nothing. Scopes must be left on the thread that entered them,
/// in reverse order, as local variables are. A scope left out of order, or on another thread, ends there for nodes
/// created afterwards.
///
/// Threads: any number of scopes on any threads. A scope is used by one thread at a time.
class [[nodiscard]] REPRISE_EXPORT annotate {
 public:
  using Entry = std::pair<std::string_view, std::string_view>;

  /// Annotates with `{{"name", name}}`. `name` must not be null.
  /// \throws BackendError if the runtime fails to report the capture or its nodes; the capture is not changed.
  template <class Name>
  requires std::convertible_to<const Name&, std::string_view>
  [[nodiscard]] explicit annotate(const Name& name) {
    if (wanted()) [[unlikely]]
      enter({{"name", name}});
  }
  /// Annotates with keys and values. Of a duplicate key the first counts.
  /// \throws BackendError as above.
  [[nodiscard]] explicit annotate(std::initializer_list<Entry> entries) {
    if (wanted()) [[unlikely]]
      enter(entries);
  }
  /// Annotates with keys and values.
  /// \throws BackendError as above.
  [[nodiscard]] explicit annotate(const Annotation& annotation) {
    if (wanted()) [[unlikely]]
      enter(annotation);
  }
  annotate(std::nullptr_t) = delete;
  /// Leaves the scope. A failure of the runtime here fails the end of the capture.
  ~annotate() {
    if (scope_ != nullptr) [[unlikely]]
      leave();
  }
  annotate(const annotate&) = delete;
  annotate& operator=(const annotate&) = delete;

 private:
  struct Scope;

  static bool wanted() noexcept { return annotation_detail::annotated_captures.load(std::memory_order_relaxed) != 0; }
  void enter(std::initializer_list<Entry> entries);
  void enter(const Annotation& annotation);
  void leave() noexcept;

  Scope* scope_ = nullptr;  // owned; null if it does nothing
};

}  // namespace reprise
