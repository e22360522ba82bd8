// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "graph/nodes/node_changes.h"
#include "reprise/annotations.h"
#include "reprise/detail/export.h"
#include "reprise/kernel.h"

namespace reprise::inspect {

/// A node of a template, or of a graph in one of its nodes.
struct ScannedNode {
  static constexpr std::size_t no_parent = static_cast<std::size_t>(-1);

  GraphNodeHandle handle = nullptr;
  GraphNodeHandle top = nullptr;  ///< the same, or the enclosing node of the template
  backend::NodeType type = backend::NodeType::empty;
  std::string number;                                        ///< as in node_text()
  FunctionHandle function = nullptr;                         ///< of a kernel node
  std::optional<backend::ConditionalType> conditional = {};  ///< of a conditional node
  std::size_t read_bytes = 0;      ///< of a copy node: of its source, with the gaps between rows
  std::size_t written_bytes = 0;   ///< likewise of its destination
  GraphHandle graph = nullptr;     ///< the one that it is a node of
  std::size_t parent = no_parent;  ///< index of the node whose child graph or body that is
};

/// The nodes that are visited.
enum class ScannedNodes {
  all,
  copies,  ///< memcpy nodes only; omissions are those that may copy memory of the host
};

/// A node whose parameters are not known, or not all of them.
struct Omission {
  std::uint32_t node = 0;  ///< index in the nodes of the walk
  std::string why;         ///< without a full stop
};

/// The arguments of a kernel node, as far as they are known.
struct KernelArguments {
  struct Argument {
    KernelParam param;
    const std::byte* value = nullptr;  ///< `param.size` bytes
  };

  /// The record of a kernel of this library, whose arguments KernelNodeParams::params has; `list` is empty then. Null
  /// for any other kernel.
  const KernelRecord* own = nullptr;
  /// One for each parameter, in order, whether the launch had them in `params` or packed in `extra`.
  std::vector<Argument> list = {};
  /// True if the parameters are not known and `list` has one element: the block of all arguments, from `extra`.
  bool one_block = false;
};

/// Walks through all nodes of a template in order of creation, including child graphs and bodies of conditional nodes.
class REPRISE_EXPORT_INTERNAL GraphWalk {
 public:
  /// \param known what was read of these nodes already, and keeps what the walk reads; null: all is read anew, and not
  ///        kept.
  explicit GraphWalk(backend::Backend& backend, ScannedNodes which = ScannedNodes::all,
                     graphs::NodeChanges* known = nullptr)
      : backend_(backend), which_(which), known_(known), layouts_(known != nullptr ? known->layouts() : own_layouts_) {}
  GraphWalk(const GraphWalk&) = delete;
  GraphWalk& operator=(const GraphWalk&) = delete;

  /// Called for each node that the runtime describes, which is the last of nodes(). `arguments` are those of a kernel
  /// node, as far as they are known, else empty. Parameters and arguments are valid during the call.
  using Visit = std::function<void(const backend::NodeParams& params, const KernelArguments& arguments)>;

  /// \throws BackendError if the runtime fails; what `visit` throws.
  void run(GraphHandle template_graph, const Visit& visit);

  /// All nodes up to the current one, also those that were not visited.
  const std::vector<ScannedNode>& nodes() const noexcept { return nodes_; }
  std::vector<ScannedNode> take_nodes() { return std::move(nodes_); }
  /// The nodes whose parameters are not known, in order.
  const std::vector<Omission>& omissions() const noexcept { return omissions_; }
  std::vector<Omission> take_omissions() { return std::move(omissions_); }

 private:
  void graph(GraphHandle within, const std::string& prefix, std::size_t parent);
  void note_copy(const backend::NodeParams& params);
  void node(ScannedNode node);
  bool read(GraphNodeHandle handle, const graphs::NodeImage* image, backend::NodeParams* params,
            backend::NodeType* type);
  void find_arguments(const backend::KernelNodeParams& kernel, const graphs::NodeImage* image);
  void find_packed(void* const* extra, const graphs::KernelLayouts::Layout& layout);
  void leave_out(std::string why);

  backend::Backend& backend_;
  const ScannedNodes which_;
  graphs::NodeChanges* const known_;
  const Visit* visit_ = nullptr;
  std::vector<ScannedNode> nodes_;
  std::vector<Omission> omissions_;
  KernelArguments arguments_;       // of the current node
  graphs::ParamPointers pointers_;  // of its parameters
  graphs::KernelLayouts own_layouts_;
  graphs::KernelLayouts& layouts_;
};

/// Queries what node_text() needs of a node that was not scanned. \param top see ScannedNode. \param number likewise.
/// \throws BackendError if the runtime fails.
ScannedNode scan_node(backend::Backend& backend, GraphNodeHandle node, GraphNodeHandle top, std::string number);

/// Describes a node: "kernel Scale (node 3)", "memcpy (node 5)", with its annotation, if it has one.
REPRISE_EXPORT_INTERNAL std::string node_text(backend::Backend& backend, const ScannedNode& node,
                                              const Annotation* annotation);

/// Describes an omission in words, without a full stop. `node` is the one that it is of.
std::string omission_text(backend::Backend& backend, const ScannedNode& node, const Omission& omission,
                          const Annotation* annotation);

/// Describes the first of these omissions, and the number of others; without a full stop, empty if there is none.
std::string omissions_text(backend::Backend& backend, std::span<const ScannedNode> nodes,
                           std::span<const Omission> omissions);

/// Omissions of either of two captures of the same nodes, each node once, in order.
std::vector<Omission> omissions_of_both(std::span<const Omission> first, std::span<const Omission> second);

/// For an option that compares two captures of a body; `first` are the nodes of the dry run.
/// \throws UsageError if the nodes are others; it names the first that differs.
void require_same_nodes(backend::Backend& backend, const char* option, std::span<const ScannedNode> first,
                        std::span<const ScannedNode> second);

}  // namespace reprise::inspect
