// SPDX-License-Identifier: Apache-2.0
#include "reprise/compare.h"

#include <optional>
#include <set>
#include <utility>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "captures/registry.h"
#include "graph/cuda_graph_impl.h"
#include "inspect/compare/step_comparison.h"
#include "inspect/diff/graph_differences.h"
#include "memory/device_words.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

// compare(): captures the body again, and executes both graphs.

namespace reprise {

using GraphImpl = graphs::GraphAccess::Impl;
using inspect::MemoryRange;

namespace {

constexpr const char* call = "compare";

void require_valid(const GraphImpl& graph, const CaptureBody& body, const std::optional<StreamRef>& stream) {
  if (!body) throw UsageError("compare: expected the body that the graph was captured from; found an empty function.");
  if (stream && stream->device() != *graph.device)
    throw UsageError(text::format("compare: expected a stream of {}, as of the capture; found one of {}.",
                                  graph.device->str(), stream->device().str()));
}

void refuse_captures_underway() {
  if (captures::any_underway())
    throw UsageError(
        "compare: it executes nodes and waits for the device, which might break the capture underway in this process. "
        "Call it when none is underway. The capture continues.");
}

/// Captures the body again, into a graph that is never launched.
class NewCapture {
 public:
  NewCapture(GraphImpl& graph, const CaptureBody& body, const std::optional<StreamRef>& stream) {
    GraphOptions options = graph.options;
    options.stream = stream;
    options.pool = {};
    options.warmup = 0;
    options.hooks = {};
    options.keep_graph = KeepGraph::no;
    options.discard_template = false;
    options.check_frozen_values = nullptr;
    inside().without_executable = true;
    inside().listeners.inherit(graph.listeners);
    const DeviceGuard device(*graph.device);
    inside().capture_body(call, options, body);
  }

  GraphImpl& inside() { return *graphs::GraphAccess::impl(graph_); }

 private:
  CUDAGraph graph_;
};

/// One comparison of two graphs that were captured. Needs their launch mutexes.
class Execution {
 public:
  /// \param before the memory of a framework before the capture of `again`.
  Execution(GraphImpl& graph, GraphImpl& again, const inspect::FrameworkMemory::Blocks& before)
      : first_(graph),
        second_(again),
        memory_(first_.graph, second_.graph, before),
        parameters_(inspect::graph_differences(first_.graph, second_.graph)),
        steps_(first_, second_, memory_, parameters_),
        runs_(first_, second_, memory_) {}

  Comparison run() {
    wait_for_the_device();
    runs_.save(saved());
    result_.saved_bytes = runs_.saved_bytes();
    inspect::FirstDifferenceSearch search(steps_, runs_);
    search.run();
    result_.difference = std::move(search.difference);
    std::set<std::size_t> nodes;
    for (std::size_t i = 0; i < search.compared; ++i)
      if (first_.runs(steps_.steps[i].first)) nodes.insert(steps_.steps[i].first);
    result_.nodes = nodes.size();
    runs_.restore();
    note_what_is_missing();
    result_.parameters = std::move(parameters_);
    return std::move(result_);
  }

 private:
  /// For work of other streams that writes the memory.
  void wait_for_the_device() const {
    const captures::NoneBegins none_begins;
    if (none_begins.any_underway()) refuse_captures_underway();
    backend::Checked(runs_.backend()).device_synchronize();
  }

  /// The end of a capture clears words of random numbers in a stream of their device, which may be another one.
  void wait_until_cleared(std::uintptr_t words) const {
    const backend::PointerInfo info = backend::Checked(runs_.backend()).info_of(reinterpret_cast<const void*>(words));
    Device device = *first_.graph.graph().device;
    if (info.device_index != device.index()) {
      const bool host = device.type() == DeviceType::host;
      device = Device(*(host ? backend::host_backends() : backend::cuda_backends())
                           .at(static_cast<std::size_t>(info.device_index)));
    }
    backend::Checked(device.backend()).stream_synchronize(memory::stream_of_words(device).native());
  }

  inspect::PairedRuns::Options saved() const {
    inspect::PairedRuns::Options options;
    std::vector<MemoryRange> ranges = steps_.written();
    if (steps_.any_whole()) ranges.insert(ranges.end(), memory_.all().begin(), memory_.all().end());
    options.saved = inspect::merged(std::move(ranges));
    for (const inspect::ComparedStep& step : steps_.steps) {
      const std::uintptr_t first = first_.work_of(step.first).random_words;
      const std::uintptr_t second = second_.work_of(step.second).random_words;
      constexpr std::size_t bytes = 2 * sizeof(std::uint64_t);  // seed and offset
      if (first == 0 || second == 0) continue;
      for (const std::uintptr_t words : {first, second}) wait_until_cleared(words);
      options.words.push_back({first, second, bytes});
    }
    return options;
  }

  void note_what_is_missing() {
    if (const std::size_t count = memory_.unpaired_segments(); count != 0)
      result_.notes.push_back(
          text::format("{} segments of the memory of {} were not compared: the two captures lie in their pools in "
                       "different ways, as happens in a pool that other graphs share.",
                       count, backend::installed_framework()->name()));
    if (!steps_.any_whole()) return;
    if (const std::size_t count = memory_.incomparable(); count != 0)
      result_.notes.push_back(
          text::format("{} allocations of the captures share memory with others in different ways, and were compared "
                       "only where it is known what a node writes.",
                       count));
  }

  inspect::SteppedGraph first_, second_;
  const inspect::ComparedMemory memory_;  // before the parameters: an address may correspond to another one
  std::vector<GraphDifference> parameters_;
  const inspect::StepComparison steps_;
  inspect::PairedRuns runs_;
  Comparison result_;
};

}  // namespace

Comparison compare(const CUDAGraph& graph, CaptureBody body, const std::optional<StreamRef>& stream) {
  const detail::PublicCall public_call(call);
  GraphImpl& impl = graphs::GraphAccess::of(graph, call);
  const GraphImpl::Use use(impl);
  impl.refuse_in_own_hook(call);
  impl.require_template(call);
  require_valid(impl, body, stream);
  refuse_captures_underway();
  Comparison result;
  const inspect::FrameworkMemory::Blocks before = inspect::FrameworkMemory::blocks_now(*impl.device);
  {
    NewCapture again(impl, body, stream);
    impl.refuse_destroyed(call);
    const GraphImpl::LockBoth lock(impl, again.inside());
    impl.require_template(call);
    impl.forget_editable();
    refuse_captures_underway();
    const backend::RelaxedCaptureMode relaxed(impl.backend());
    result = Execution(impl, again.inside(), before).run();
  }
  memory::ReleaseQueue::drain();
  return result;
}

}  // namespace reprise
