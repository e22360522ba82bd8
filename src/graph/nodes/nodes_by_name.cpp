// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/nodes_by_name.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "backend/check.h"
#include "backend/rules/kernel_text.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Checked;
using backend::NodeType;

namespace {

std::string without_spaces(std::string_view text) {
  std::string left(text);
  std::erase(left, ' ');
  return left;
}

/// A name without the namespaces, classes and functions that it lies in.
struct LastPart {
  std::size_t begin = 0;
  std::size_t arguments = 0;  ///< where the template arguments begin; the end of the name without any
};

LastPart last_part(std::string_view name) {
  LastPart part{0, name.size()};
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (depth == 0 && name.substr(i).starts_with("::")) part = {i + 2, name.size()};
    if (depth == 0 && c == '<') part.arguments = i;
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  return part;
}

}  // namespace

bool is_name_of_kernel(std::string_view wanted, const char* symbol) {
  if (symbol == nullptr || wanted.empty() || wanted.starts_with(' ') || wanted.ends_with(' ')) return false;
  if (wanted == symbol) return true;
  const std::string text = without_spaces(wanted), name = backend::kernel_text(symbol);
  const std::string parameters = backend::kernel_parameters_text(symbol);
  const LastPart part = last_part(name);
  for (const std::size_t begin : {std::size_t{0}, part.begin})
    for (const std::size_t end : {name.size(), part.arguments}) {
      const std::string written = name.substr(begin, end - begin);
      if (text == without_spaces(written) || text == without_spaces(written + parameters)) return true;
    }
  return false;
}

namespace {

using Impl = GraphAccess::Impl;

bool has_name(Impl& impl, const NumberedNode& node, std::string_view name) {
  if (const Annotation* const annotation = impl.listeners.annotation_of(node.handle)) {
    const auto found = annotation->find("name");
    if (found != annotation->end() && found->second == name) return true;
  }
  if (node.type != NodeType::kernel) return false;
  const char* symbol = nullptr;
  Checked(impl.backend()).function_name(impl.changes.values(impl.backend(), node.handle).function(), &symbol);
  return is_name_of_kernel(name, symbol);
}

// A node that the library added to the user's work: its annotation is that of the scope in which this happened.
bool is_own(Impl& impl, const NumberedNode& node) {
  if (node.type == NodeType::kernel) return impl.changes.values(impl.backend(), node.handle).own_kernel() != nullptr;
  return node.type == NodeType::memset &&
         impl.listeners.is_progress_mark(impl.changes.values(impl.backend(), node.handle).set().destination);
}

// Finds the nodes that a name means. Nodes in a node with the name have its annotation as well, and do not count; nor
// do nodes of the library beside others.
std::vector<NumberedNode> nodes_with_name(Impl& impl, const std::vector<NumberedNode>& all, std::string_view name) {
  std::vector<NumberedNode> found;
  for (const NumberedNode& node : all) {
    const bool lies_in_last = !found.empty() && node.number.starts_with(found.back().number + ".");
    if (!lies_in_last && has_name(impl, node, name)) found.push_back(node);
  }
  const auto own =
      std::stable_partition(found.begin(), found.end(), [&](const NumberedNode& node) { return !is_own(impl, node); });
  if (own != found.begin()) found.erase(own, found.end());
  if (!found.empty()) return found;
  std::ranges::copy_if(all, std::back_inserter(found), [&](const NumberedNode& node) { return node.number == name; });
  return found;
}

std::string text_of(const Impl& impl, const NumberedNode& node) {
  return impl.listeners.node_text(impl.backend(), node.handle, node.top, node.number);
}

std::string list_of(const Impl& impl, const std::vector<NumberedNode>& nodes) {
  constexpr std::size_t most = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(nodes.size(), most); ++i) list += (i == 0 ? "" : "; ") + text_of(impl, nodes[i]);
  return nodes.size() > most ? list + text::format("; and {} more", nodes.size() - most) : list;
}

}  // namespace

NumberedNode node_with_name(Impl& impl, const char* call, std::string_view name) {
  if (!impl.listeners.annotations_have_name(name))  // no kernel has a number for a name
    if (auto numbered = node_with_number(impl.backend(), impl.template_graph, name)) return *std::move(numbered);
  const std::vector<NumberedNode> all = numbered_nodes(impl.backend(), impl.template_graph);
  const std::vector<NumberedNode> found = nodes_with_name(impl, all, name);
  if (found.size() == 1) return found.front();
  if (found.empty())
    throw UsageError(
        text::format("{} expected the name of a kernel or of an annotation in the graph, or the number of a "
                     "node; found \"{}\", which no node has. The nodes are: {}.",
                     call, name, list_of(impl, all)));
  throw UsageError(
      text::format("{} expected a name that one node has; found \"{}\", which {} nodes have: {}. Name the kernel with "
                   "its namespaces, template arguments and parameters, capture with annotations, pass a node's number, "
                   "or choose one of nodes().",
                   call, name, found.size(), list_of(impl, found)));
}

}  // namespace reprise::graphs
