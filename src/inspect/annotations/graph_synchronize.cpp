// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "backend/check.h"
#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "graph/listeners/collectives_listener.h"
#include "inspect/annotations/annotation_text.h"
#include "inspect/annotations/progress_listener.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

// CUDAGraph::synchronize(): waiting for a time, and what is done after it.

namespace reprise {
namespace {

using SynchronizedGraph = graphs::GraphAccess::Impl;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr const char* synchronize_call = "CUDAGraph::synchronize";

std::string in_units(nanoseconds timeout) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  if (milliseconds == timeout) return text::format("{} ms", milliseconds.count());
  return text::format("{} ns", timeout.count());
}

// Breaks no capture. Queries often at first, since most replays are short.
bool completes(const StreamRef& stream, nanoseconds timeout) {
  const backend::RelaxedCaptureMode relaxed(stream.device().backend());
  const auto begin = steady_clock::now();
  while (!stream.query()) {
    const nanoseconds waited = steady_clock::now() - begin;
    if (waited >= timeout) return false;
    if (waited < std::chrono::microseconds(100))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::min<nanoseconds>({waited / 8, std::chrono::milliseconds(1), timeout - waited}));
  }
  return true;
}

// An aborted replay ends in a moment. If the graph ends before, its communicators do not end before the process, and a
// library that is still aborting then complains of the device.
void wait_for_aborted(const StreamRef& stream) noexcept {
  try {
    static_cast<void>(completes(stream, std::chrono::seconds(5)));
  } catch (const std::exception&) {
    // The error of the timeout is the first one.
  }
}

// Aborts what the graph waits for in other processes, and says so in `text`.
void abort_collectives(const SynchronizedGraph& graph, const StreamRef& stream, std::string& text) {
  const auto collectives = graph.listeners.collectives().collectives();
  if (collectives == nullptr) return;
  std::string ranks;
  for (const auto& each : collectives->all()) {
    ranks += (ranks.empty() ? "" : "; ") + each->describe();
    each->abort();
  }
  text += text::format(
      " This process is {}. The communicators of the graph are being aborted, and the results of the replay are "
      "undefined. Graphs with these communicators are not replayed any more. Look for the process that did not reach "
      "the same collective, "
      "end all, and start them again.",
      ranks);
  wait_for_aborted(stream);
}

void synchronize_within(SynchronizedGraph& graph, const StreamRef* stream, nanoseconds timeout) {
  const detail::PublicCall public_call(synchronize_call);
  const SynchronizedGraph::Use use(graph);
  graph.refuse_in_own_hook(synchronize_call);
  graph.require_captured(synchronize_call);
  const std::string& name = graph.options.name;
  const Device device = *graph.device;
  const std::string of_graph = graphs::of_graph(name);
  if (timeout < timeout.zero())
    throw UsageError(text::format("{}{}: expected a timeout of 0 or more, found {}.", synchronize_call, of_graph,
                                  in_units(timeout)));
  const StreamRef on = stream != nullptr ? *stream : current_stream(device);
  if (on.device() != device)
    throw UsageError(text::format("{}{}: the stream is of device {}, but the graph was captured on {}.",
                                  synchronize_call, of_graph, on.device().str(), device.str()));
  if (on.capture_status() != CaptureStatus::none)
    throw UsageError(
        text::format("{}{}: the stream is being captured, and waiting for it would break the capture. Use a "
                     "stream that the graph was replayed on. The capture continues.",
                     synchronize_call, of_graph));
  if (completes(on, timeout)) return;

  std::string text = text::format("{}{}: the work of the stream did not complete within {} on {}.", synchronize_call,
                                  of_graph, in_units(timeout), device.str());
  std::string mark;
  if (const auto marks = graph.listeners.progress().marks()) {
    mark = inspect::annotation_text(marks->last().value_or(Annotation{}));
    text += mark.empty() ? " The graph has reached the end of no scope."
                         : text::format(" The last scope whose end the graph has reached is {}.", mark);
  }
  if (timeout > timeout.zero()) abort_collectives(graph, on, text);
  throw TimeoutError(text, device.str(), name, mark);
}

}  // namespace

void CUDAGraph::synchronize(std::chrono::nanoseconds timeout) {
  synchronize_within(Impl::of(*this, synchronize_call), nullptr, timeout);
}

void CUDAGraph::synchronize(const StreamRef& stream, std::chrono::nanoseconds timeout) {
  synchronize_within(Impl::of(*this, synchronize_call), &stream, timeout);
}

}  // namespace reprise
