// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/handles.h"

/// \file
/// Annotations: scopes that name what is captured in them, for reports, errors, timings and tools.

namespace reprise {

/// What a scope says of the nodes that are made in it: keys and values, sorted by key. The key `name` is the one that
/// `annotate("phase")` sets.
using Annotation = std::map<std::string, std::string>;

/// A node of a captured graph, and what the scopes said in which it was made.
struct AnnotatedNode {
  GraphNodeHandle node = nullptr;  ///< of the template graph
  std::size_t index = 0;           ///< its place among all nodes of the template, in order of creation
  Annotation annotation = {};      ///< never empty
};

/// For the inside of `annotate`.
namespace annotation_detail {
/// How many captures with annotations are underway in the process.
extern std::atomic<int> captures_underway;
}  // namespace annotation_detail

/// A scope that annotates the nodes which are made in it, in a capture with GraphOptions::enable_annotations:
///
///     capture(graph, options, [&] {
///       const annotate forward("forward");
///       for (int layer = 0; layer < layers; ++layer) {
///         const annotate scope({{"layer", std::to_string(layer)}});
///         ...  // these nodes have name=forward, layer=...
///       }
///     });
///
/// It takes part in the capture that the calling thread's current stream belongs to when it is entered. In no capture,
/// in one without annotations, or in one that is broken, it does nothing; and as long as no capture with annotations
/// is underway in the process, it costs one relaxed load.
///
/// What is made between its beginning and its end by any thread, on any stream of the capture and by any library is
/// annotated. Scopes of a thread nest: the inner one adds its keys, and wins those that both have. When several threads
/// have scopes in one capture at once, a node belongs to the thread whose stream led to it; one that no thread's stream
/// led to yet belongs to the thread that enters or leaves a scope next.
///
/// A scope may be left after its capture ended or failed, which then does nothing. Scopes are to be left by the thread
/// that entered them, the last one first, as local variables are. A scope that is left out of order ends there all the
/// same, for the nodes that are made afterwards; on another thread it does, too, with a warning.
///
/// Threads: any number of scopes on any threads. A scope is used by one thread at a time.
class [[nodiscard]] annotate {
 public:
  /// A key and its value.
  using Entry = std::pair<std::string_view, std::string_view>;

  /// Annotates with `{{"name", name}}`. `name` is no null pointer.
  /// \throws BackendError if the runtime cannot tell whether it captures, or what; the capture is not changed.
  template <class Name>
  requires std::convertible_to<const Name&, std::string_view>
  [[nodiscard]] explicit annotate(const Name& name) {
    if (wanted()) [[unlikely]]
      enter({{"name", name}});
  }
  /// Annotates with keys and values. Of a key that is there twice the first counts.
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
  annotate(std::nullptr_t) = delete;  ///< no name
  /// Leaves the scope. What the runtime refuses to tell then fails the end of the capture.
  ~annotate() {
    if (scope_ != nullptr) [[unlikely]]
      leave();
  }
  annotate(const annotate&) = delete;
  annotate& operator=(const annotate&) = delete;

 private:
  struct Scope;

  static bool wanted() noexcept { return annotation_detail::captures_underway.load(std::memory_order_relaxed) != 0; }
  void enter(std::initializer_list<Entry> entries);
  void enter(const Annotation& annotation);
  void leave() noexcept;

  Scope* scope_ = nullptr;  // owned; null if it does nothing
};

}  // namespace reprise
