// SPDX-License-Identifier: Apache-2.0

#include <cerrno>
#include <cstring>
#include <fstream>

#include "backend/check.h"
#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

// Queries of a CUDAGraph: pool, device, raw handles, nodes, DOT; annotations() and inputs() are in src/inspect/.

namespace reprise {

using backend::Checked;

void CUDAGraph::Impl::require_keep_graph(const char* call) const {
  if (keep == KeepGraph::no && made_with == KeepGraph::no)
    throw UsageError(
        text::format("{} needs a graph with KeepGraph::yes, and {} has KeepGraph::no: capture_end() instantiates "
                     "it, and its template cannot be reached. Make it with CUDAGraph(KeepGraph::yes), or capture it "
                     "with GraphOptions::keep_graph.",
                     call, options.name.empty() ? "this one" : "graph `" + options.name + "`"));
}

void CUDAGraph::Impl::require_template(const char* call) const {
  require(call, {State::captured, State::ready});
  if (template_graph == nullptr)
    throw UsageError(
        text::format("{}{} needs the template graph, which GraphOptions::discard_template had "
                     "destroyed: capture without that option, or call enable_debug_mode() before the capture.",
                     call, graphs::of_graph(options.name)));
}

std::uint64_t CUDAGraph::Impl::next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::uint64_t CUDAGraph::id() const {
  return Impl::of(*this, "CUDAGraph::id").graph_id;
}

std::string CUDAGraph::name() const {
  return Impl::of(*this, "CUDAGraph::name").options.name;
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
  impl.give_out_template();
  return impl.template_graph;
}

GraphExecHandle CUDAGraph::raw_cuda_graph_exec() const {
  constexpr const char* call = "CUDAGraph::raw_cuda_graph_exec";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);
  if (impl.in_own_hook() && impl.state == Impl::State::captured)
    throw UsageError(
        text::format("{} was called in a hook that runs before the executable is made; the hook `instantiated` is "
                     "passed it.",
                     call));
  impl.require(call, {Impl::State::ready});
  impl.in_use_elsewhere = true;
  return impl.exec;
}

std::size_t CUDAGraph::node_count() const {
  constexpr const char* call = "CUDAGraph::node_count";
  const detail::PublicCall public_call(call);
  const Impl& impl = Impl::of(*this, call);
  impl.require_template(call);
  return Checked(impl.backend()).nodes_of(impl.template_graph).size();
}

void CUDAGraph::enable_debug_mode() {
  Impl::of(*this, "CUDAGraph::enable_debug_mode").debug = true;
}

void CUDAGraph::debug_dump(const std::filesystem::path& path) const {
  constexpr const char* call = "CUDAGraph::debug_dump";
  const detail::PublicCall public_call(call);
  const Impl& impl = Impl::of(*this, call);
  impl.require_template(call);
  // The runtime has no code of its own for a file that cannot be written.
  errno = 0;
  if (!std::ofstream(path))
    throw Error(text::format("{}: the file \"{}\" cannot be written: {}.", call, path.string(), std::strerror(errno)));
  const auto flags = impl.debug ? backend::DotFlags::verbose : backend::DotFlags::none;
  Checked(impl.backend()).graph_debug_dot_print(impl.template_graph, path.c_str(), flags);
}

}  // namespace reprise
