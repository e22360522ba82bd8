// SPDX-License-Identifier: Apache-2.0

#include <cerrno>
#include <cstring>
#include <fstream>

#include "backend/check.h"
#include "graph/cuda_graph_impl.h"
#include "text/format.h"

// What can be asked of a CUDAGraph: pool, device, raw handles, nodes, DOT.

namespace reprise {

using backend::Checked;

void CUDAGraph::Impl::require_keep_graph(const char* call) const {
  if (keep == KeepGraph::no)
    throw UsageError(
        text::format("{} needs a graph that was made with KeepGraph::yes, and this one was made with "
                     "KeepGraph::no: capture_end() instantiates it, and its template cannot be reached. "
                     "Make it with CUDAGraph(KeepGraph::yes).",
                     call));
}

void CUDAGraph::Impl::require_template(const char* call) const {
  require(call, {State::captured, State::ready});
  if (template_graph == nullptr)
    throw UsageError(
        text::format("{} needs the template graph, which was discarded as GraphOptions::discard_template "
                     "asked: capture without that option, or call enable_debug_mode() before the capture.",
                     call));
}

MempoolId CUDAGraph::pool() const {
  const Impl& impl = Impl::of(*this, "CUDAGraph::pool");
  impl.require("CUDAGraph::pool", {Impl::State::captured, Impl::State::ready});
  return impl.pool;
}

const std::optional<CaptureReport>& CUDAGraph::capture_report() const {
  return Impl::of(*this, "CUDAGraph::capture_report").last_report;
}

Device CUDAGraph::device() const {
  const Impl& impl = Impl::of(*this, "CUDAGraph::device");
  impl.require("CUDAGraph::device", {Impl::State::capturing, Impl::State::captured, Impl::State::ready});
  return *impl.device;
}

GraphHandle CUDAGraph::raw_cuda_graph() const {
  constexpr const char* call = "CUDAGraph::raw_cuda_graph";
  Impl& impl = Impl::of(*this, call);
  impl.require_keep_graph(call);
  impl.require_template(call);
  impl.in_use_elsewhere = true;
  return impl.template_graph;
}

GraphExecHandle CUDAGraph::raw_cuda_graph_exec() const {
  constexpr const char* call = "CUDAGraph::raw_cuda_graph_exec";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);
  impl.require(call, {Impl::State::ready});
  impl.in_use_elsewhere = true;
  return impl.exec;
}

std::size_t CUDAGraph::node_count() const {
  constexpr const char* call = "CUDAGraph::node_count";
  const Impl& impl = Impl::of(*this, call);
  impl.require_template(call);
  std::vector<GraphNodeHandle> nodes;
  Checked(impl.backend()).graph_nodes(impl.template_graph, &nodes);
  return nodes.size();
}

void CUDAGraph::enable_debug_mode() {
  Impl::of(*this, "CUDAGraph::enable_debug_mode").debug = true;
}

void CUDAGraph::debug_dump(const std::filesystem::path& path) const {
  constexpr const char* call = "CUDAGraph::debug_dump";
  const Impl& impl = Impl::of(*this, call);
  impl.require_template(call);
  // The runtime's code does not tell a file that cannot be written from anything else.
  errno = 0;
  if (!std::ofstream(path))
    throw Error(text::format("{}: the file {} cannot be written: {}.", call, path.string(), std::strerror(errno)));
  const auto flags = impl.debug ? backend::DotFlags::verbose : backend::DotFlags::none;
  Checked(impl.backend()).graph_debug_dot_print(impl.template_graph, path.c_str(), flags);
}

}  // namespace reprise
