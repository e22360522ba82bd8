// SPDX-License-Identifier: Apache-2.0
#include "breakable/forks.h"

#include <algorithm>
#include <exception>
#include <span>
#include <unordered_set>

#include "backend/check.h"
#include "backend/rules/call_stack.h"
#include "backend/stream_wait.h"
#include "captures/past.h"
#include "inspect/nodes/graph_walk.h"
#include "text/format.h"

namespace reprise::breakables {
namespace {

using backend::Checked;
using NodeSet = std::unordered_set<GraphNodeHandle>;

constinit captures::Slot<Forks> forks_of;

void note_wait(const StreamRef& stream) noexcept {
  if (!captures::any_underway()) return;
  bool watched = false;
  captures::for_each([&](const captures::Capture& each) { watched |= each.get(forks_of) != nullptr; });
  if (!watched) return;
  try {
    const captures::Found found = captures::find(stream);
    if (found.part != captures::Part::own || found.capture->stream() == stream) return;
    if (const auto forks = found.capture->get(forks_of)) forks->joined(stream);
  } catch (const std::exception& error) {  // the wait has succeeded
    warn(text::format("A stream that waited may not be named among unjoined forks: {}", error.what()));
  }
}

/// All nodes that come before the end of the stream that is captured, with those ends.
class Joined {
 public:
  explicit Joined(const captures::Found& found) {
    Checked(found.capture->device().backend()).graph_edges(found.info.graph, &edges_);
    nodes_ = captures::with_nodes_before(edges_, {found.info.dependencies.begin(), found.info.dependencies.end()});
  }

  bool contains(GraphNodeHandle node) const { return nodes_.contains(node); }
  /// Nodes that no other one follows.
  bool is_last(GraphNodeHandle node) const {
    return std::ranges::none_of(edges_, [&](const backend::Edge& edge) { return edge.from == node; });
  }

 private:
  std::vector<backend::Edge> edges_;
  NodeSet nodes_;
};

std::string node_text(const captures::Found& found, std::span<const GraphNodeHandle> all, GraphNodeHandle node) {
  backend::Backend& backend = found.capture->device().backend();
  const auto place = std::ranges::find(all, node);
  return inspect::node_text(backend, inspect::scan_node(backend, node, node, text::format("{}", place - all.begin())),
                            nullptr);
}

}  // namespace

std::shared_ptr<Forks> Forks::watch(captures::Capture& capture) {
  static constinit backend::StreamWaitCallback callback(&note_wait);
  static const bool added = (backend::stream_wait_callbacks.add(callback), true);
  static_cast<void>(added);
  return capture.get_or_attach(forks_of);
}

void Forks::joined(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(forks_, stream, &Fork::stream) != forks_.end()) return;
  try {
    forks_.push_back({stream, backend::call_stack()});
  } catch (...) {  // no memory: a text will lack the stream
  }
}

void Forks::stream_ends(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(forks_, [&](const Fork& each) { return each.stream == stream; });
}

std::vector<StreamRef> Forks::streams() const {
  const std::lock_guard lock(mutex_);
  std::vector<StreamRef> all;
  for (const Fork& fork : forks_) all.push_back(fork.stream);
  return all;
}

std::vector<std::string> Forks::unjoined(const captures::Found& found, bool everything) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> texts;
  if (forks_.empty() && !everything) return texts;
  const Joined joined(found);
  NodeSet named;
  std::vector<GraphNodeHandle> all;
  Checked(found.capture->device().backend()).graph_nodes(found.info.graph, &all);
  for (const Fork& fork : forks_) {
    const captures::Found now = captures::find(fork.stream);
    if (now.info.status != CaptureStatus::active || now.info.id != found.info.id) continue;
    const std::vector<GraphNodeHandle> ends(now.info.dependencies.begin(), now.info.dependencies.end());
    const auto end = std::ranges::find_if(ends, [&](GraphNodeHandle node) { return !joined.contains(node); });
    if (end == ends.end()) continue;
    named.insert(ends.begin(), ends.end());
    std::string text =
        text::format("The stream {} was forked off the capture by a wait, and nothing joins it: its last work is {}.",
                     static_cast<const void*>(fork.stream.native()), node_text(found, all, *end));
    if (!fork.stack.empty()) text += " It waited in:";
    for (const std::string& line : fork.stack) text += "\n    " + line;
    texts.push_back(std::move(text));
  }
  if (!everything) return texts;
  for (const GraphNodeHandle node : all)
    if (!joined.contains(node) && !named.contains(node) && joined.is_last(node))
      texts.push_back(text::format("Nothing joins {}, the last work of a fork.", node_text(found, all, node)));
  return texts;
}

}  // namespace reprise::breakables
