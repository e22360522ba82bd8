// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "graph/nodes/node_image.h"
#include "reprise/graph_diff.h"

namespace reprise::graphs {

/// Other values for a node of a graph.
struct NodeChange {
  GraphNodeHandle node = nullptr;
  NodeImage to;
};

/// A place of a node that is set, perhaps to the value that it has.
struct SetPlace {
  GraphNodeHandle node = nullptr;
  NodePlace place = {};
};

/// Why the executable of a graph cannot be updated to another one.
struct UpdateRefusal {
  UpdateResult result = UpdateResult::error;
  GraphNodeHandle node = nullptr;  ///< of the other template: the first one that does not fit; null: it is not known
  std::string why = {};            ///< without a full stop
};

/// Copies of a template that had an end in memory of a device when its executable was made: the index of that device.
struct DeviceEnds {
  std::optional<int> source = {}, destination = {};
};
using CopiesOfDevices = std::unordered_map<GraphNodeHandle, DeviceEnds>;

/// Changes of a captured graph: the one way in which parameters of its nodes are changed, in the executable and in the
/// template, which has the same values at any time. What the template cannot hold, that nodes are disabled, is kept
/// here.
///
/// The steps of a change:
///
///     values(node) -> a copy is changed -> check() -> apply() of all copies at once
///
/// Owned by a graph, and used under its launch mutex.
class NodeChanges {
 public:
  /// Describes a node, for errors: "kernel Scale (node 3) in forward".
  using Describe = std::function<std::string(GraphNodeHandle node)>;
  /// Called when all values are in place, also as values(); if it throws, they are put back.
  using Changed = std::function<void()>;

  NodeChanges() = default;
  NodeChanges(const NodeChanges&) = delete;
  NodeChanges& operator=(const NodeChanges&) = delete;

  /// The values that the node has; of a node of a child graph or body, too. Read once: the reference is valid until
  /// forget(). \throws BackendError if the runtime fails.
  const NodeImage& values(backend::Backend& backend, GraphNodeHandle node) { return image_of(backend, node); }
  /// The parameters of the kernels of these nodes.
  KernelLayouts& layouts() noexcept { return layouts_; }
  /// Other code may have changed the template, or the executable was updated as a whole.
  void forget() noexcept {
    images_.clear();
    layouts_.clear();
    may_copy_ = true;
  }
  /// Exchanges all that is known of two graphs.
  void swap(NodeChanges& other) noexcept {
    images_.swap(other.images_);
    std::swap(layouts_, other.layouts_);
    disabled_.swap(other.disabled_);
    of_devices_.swap(other.of_devices_);
    std::swap(may_copy_, other.may_copy_);
  }

  /// Begins the text of an error: the call, and the node.
  using Begin = std::function<std::string()>;

  /// Throws UsageError for a kernel of this library.
  static void require_not_own(const NodeImage& node, const Begin& begin);
  /// Throws UsageError, with the rule, unless CUDA can change the node of an executable in this way.
  /// Refuses a copy or set that would go past the end of a block of the device's allocator, too.
  /// \param exec null if there is no executable: the template's limits count alone. \param from the values of `node`.
  void check(const Device& device, GraphExecHandle exec, GraphNodeHandle node, const NodeImage& from,
             const NodeImage& to, const Begin& begin) const;

  /// \param may_copy false: no node of the template copies memory.
  void captured(bool may_copy) noexcept { may_copy_ = may_copy; }
  /// The copies of a template, also in graphs of its nodes, with memory of a device. \throws BackendError
  CopiesOfDevices copies_of_devices(backend::Backend& backend, GraphHandle template_graph) const;
  /// An executable was made, with these copies.
  void executable_made(CopiesOfDevices copies) noexcept { of_devices_ = std::move(copies); }
  /// True if an end of a copy is in pageable memory now, and was in memory of a device when the executable was made,
  /// whatever it was in since. An update of CUDA can take that, and the launch after it ends in an illegal address
  /// (driver 580).
  bool leaves_device(backend::Backend& backend, GraphNodeHandle node, const NodeImage& from, const NodeImage& to) const;

  /// Changes executable (null: none) and template, all nodes or none.
  /// \throws BackendError that describes the node; what `changed` throws.
  void apply(backend::Backend& backend, GraphExecHandle exec, std::span<NodeChange> changes, const Describe& describe,
             const Changed& changed);

  /// Enables or disables a node. \throws BackendError that describes the node: nothing has changed.
  void set_enabled(backend::Backend& backend, GraphExecHandle exec, GraphNodeHandle node, std::size_t index,
                   bool enabled, const Describe& describe);
  bool enabled(GraphNodeHandle node) const { return !disabled_.contains(node); }
  /// Disables the same nodes in a new executable of the template. \throws BackendError
  void disable_in(backend::Backend& backend, GraphHandle template_graph, GraphExecHandle exec);

  /// The graph is empty.
  void reset() noexcept {
    forget();
    disabled_.clear();
    of_devices_.clear();
  }

 private:
  struct Step;

  NodeImage& image_of(backend::Backend& backend, GraphNodeHandle node);
  static void write(backend::Backend& backend, GraphExecHandle exec, std::span<const Step> steps,
                    const Describe& describe);
  static void put_back(backend::Backend& backend, GraphExecHandle exec, std::span<const Step> done);
  DeviceEnds device_ends(GraphNodeHandle node) const {
    const auto found = of_devices_.find(node);
    return found != of_devices_.end() ? found->second : DeviceEnds{};
  }

  std::unordered_map<GraphNodeHandle, NodeImage> images_;      // those that were read
  KernelLayouts layouts_;                                      // of their kernels
  std::unordered_map<GraphNodeHandle, std::size_t> disabled_;  // with their index at that time
  CopiesOfDevices of_devices_;                                 // of the executable
  bool may_copy_ = true;                                       // the template, or graphs in its nodes
};

}  // namespace reprise::graphs
