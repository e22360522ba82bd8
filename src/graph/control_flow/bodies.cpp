// SPDX-License-Identifier: Apache-2.0
#include "graph/control_flow/bodies.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "backend/capture_query.h"
#include "backend/check.h"
#include "captures/registry.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Call;
using backend::Checked;

namespace {

enum class EndedGraph { destroy, keep };

// Ends the runtime's capture that began on a stream, if it is still underway. A broken capture, one of another thread,
// or one already ended by a raw driver call is over after the first try, without a graph: then the code does not
// matter. Returns whether a graph came out of it.
bool drop_capture(const StreamRef& stream, EndedGraph graph) noexcept {
  Backend& backend = stream.device().backend();
  const backend::RelaxedCaptureMode relaxed(backend);
  backend::Result ended = ErrorCode::success;
  for (const bool again : {false, true}) {
    const std::optional<CaptureStatus> status = backend::known_capture_status(stream);
    if (status ? *status == CaptureStatus::none : again) return false;
    if (again) backend::warn_on_error(backend, Call::stream_end_capture, ended);
    GraphHandle made = nullptr;
    ended = backend.stream_end_capture(stream.native(), &made);
    if (made != nullptr && graph == EndedGraph::destroy) backend::WarnOnError(backend).graph_destroy(made);
    if (!ended.failed()) return made != nullptr;
  }
  return false;
}

// Lets a stream depend on all that its capture has, so that no stream is left that was forked off and not joined.
// Returns whether there was one; nullopt if the capture is broken.
std::optional<bool> join_all(const StreamRef& stream) {
  const Checked runtime(stream.device().backend());
  const backend::CaptureInfo info = backend::capture_info(stream);
  if (info.status != CaptureStatus::active) return std::nullopt;
  std::unordered_set<GraphNodeHandle> joined(info.dependencies.begin(), info.dependencies.end());
  std::vector<GraphNodeHandle> nodes = runtime.nodes_of(info.graph);
  for (const backend::Edge& edge : runtime.edges_of(info.graph)) joined.insert(edge.from);
  std::erase_if(nodes, [&](GraphNodeHandle node) { return joined.contains(node); });
  if (nodes.empty()) return false;
  runtime.stream_update_capture_dependencies(stream.native(), nodes, backend::UpdateDependencies::add);
  return true;
}

// Ends the capture of a body unless it is broken. Returns stream_capture_unjoined if it had to be joined.
ErrorCode end_body(const StreamRef& stream) {
  const std::optional<bool> joined_any = join_all(stream);
  if (!joined_any) return ErrorCode::stream_capture_invalidated;
  GraphHandle graph = nullptr;  // that of the node
  Checked(stream.device().backend()).stream_end_capture(stream.native(), &graph);
  return *joined_any ? ErrorCode::stream_capture_unjoined : ErrorCode::success;
}

void warn_of_body(const std::exception& error) noexcept {
  warn(text::format("A capture of a body could not be ended: {}", error.what()));
}

}  // namespace

StreamRef Bodies::stream_for(const StreamRef& outer, std::uint64_t outer_id, bool repeats) {
  const std::lock_guard lock(mutex_);
  if (!repeats)
    for (const OwnStream& own : streams_)
      if (own.outer == outer.native() && own.outer_id == outer_id && !own.repeats && !is_broken(own.stream->ref()))
        return own.stream->ref();
  streams_.push_back({outer.native(), outer_id, repeats, std::make_unique<InternalStream>(outer.device())});
  return streams_.back().stream->ref();
}

bool Bodies::has_body_on(const StreamRef& outer, std::uint64_t outer_id) const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(streams_, [&](const OwnStream& own) {
    return own.outer == outer.native() && own.outer_id == outer_id &&
           std::ranges::find(open_, own.stream->ref(), &Open::stream) != open_.end();
  });
}

void Bodies::opened(const StreamRef& stream, std::shared_ptr<const captures::Body> outer) {
  const std::lock_guard lock(mutex_);
  broken_.reserve(broken_.size() + open_.size() + 1);  // so that end() needs no memory
  open_.push_back({stream, std::move(outer)});
}

std::optional<ErrorCode> Bodies::end(const StreamRef& stream) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(open_, stream, &Open::stream);
  if (found == open_.end()) return std::nullopt;
  broken_.push_back(std::move(*found));
  open_.erase(found);
  const ErrorCode result = end_body(stream);
  if (result != ErrorCode::stream_capture_invalidated) broken_.pop_back();
  return result;
}

void Bodies::drop_body(const StreamRef& stream) noexcept try {
  (void)end(stream);
} catch (const std::exception& error) {
  warn_of_body(error);
}

void Bodies::drop(const StreamRef& origin) noexcept {
  const std::lock_guard lock(mutex_);
  for (; !open_.empty(); open_.pop_back()) broken_.push_back(std::move(open_.back()));
  // Tries bodies marked as broken, too, innermost first: the mark may be due to a failed query.
  std::erase_if(broken_, [](const Open& body) {
    try {
      return end_body(body.stream) != ErrorCode::stream_capture_invalidated;
    } catch (const std::exception& error) {
      warn_of_body(error);
      return false;
    }
  });
  if (broken_.empty())
    (void)drop_capture(origin, EndedGraph::destroy);
  else
    drop_broken(origin);
}

void Bodies::not_begun(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto last = std::ranges::find(open_.rbegin(), open_.rend(), stream, &Open::stream);
  if (last != open_.rend()) open_.erase(std::next(last).base());
}

bool Bodies::is_broken(const StreamRef& stream) const noexcept {
  return std::ranges::find(broken_, stream, &Open::stream) != broken_.end();
}

bool Bodies::is_in_broken(const Open& body) const noexcept {
  for (const captures::Body* outer = body.outer.get(); outer != nullptr; outer = outer->outer.get())
    if (is_broken(outer->stream)) return true;
  return false;
}

// The graph of a capture that succeeds is still there when the bodies are ended, and is not destroyed afterwards: that
// costs the memory of a template. The graph of one that fails is gone, and with it those of its bodies.
void Bodies::drop_broken(const StreamRef& origin) noexcept {
  try {
    (void)join_all(origin);
  } catch (const std::exception& error) {
    warn(text::format("A broken capture could not be joined before its end: {}", error.what()));
  }
  const bool whole = drop_capture(origin, EndedGraph::keep);
  bool leaves_any = false;
  for (const Open& body : broken_)
    if (whole && !is_in_broken(body))
      (void)drop_capture(body.stream, EndedGraph::keep);
    else
      leaves_any = true;
  broken_.clear();
  if (!leaves_any) return;
  captures::stay_underway();
  warn(
      "A capture was broken, and so was the body of a conditional node in it. CUDA's driver cannot end the capture of "
      "such a body: an internal stream, and streams forked off it in the body, go on capturing. cudaDeviceSynchronize "
      "fails with 900 on this device, and this library waits for no device any more. Wait for "
      "streams and events instead, and call nothing in a body that waits for the device.");
}

}  // namespace reprise::graphs
