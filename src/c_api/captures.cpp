// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "c_api/objects.h"
#include "c_api/status.h"
#include "reprise/capture.h"
#include "reprise/capture_options.h"
#include "reprise/error.h"
#include "text/format.h"

// Captures, and structs whose size is the caller's.

using reprise::GraphOptions;
using reprise::StreamRef;
using namespace reprise::c_api;

namespace reprise::c_api {

void require_struct_size(std::size_t found, std::size_t known) {
  constexpr std::size_t most = 4096;  // of any version
  if (found < sizeof(std::size_t) || found > most)
    throw UsageError(text::format(
        "expected the size of the struct in its member struct_size, {} bytes in this version; found {}", known, found));
}

void require_known_members(const void* given, std::size_t known, std::size_t found) {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  for (std::size_t i = known; i < found; ++i)
    if (bytes[i] != 0)
      throw UsageError(text::format(
          "expected members of a newer version to be zero, since this one, {}, does not have them; found one that is "
          "set, at byte {}: use the newer library",
          REPRISE_VERSION, i));
}

}  // namespace reprise::c_api

namespace {

GraphOptions options_of(const reprise_capture_options* given) {
  const reprise_capture_options wanted = read_options(given);
  if (wanted.reserved != 0)
    throw reprise::UsageError(
        reprise::text::format("reprise_capture_options::reserved expected 0; found {}: set all members, or begin "
                              "with zeros.",
                              wanted.reserved));
  GraphOptions options;
  options.pool = {wanted.pool.first, wanted.pool.second};
  options.capture_error_mode = static_cast<reprise::CaptureMode>(wanted.mode);
  options.warmup = wanted.warmup;
  if (wanted.name != nullptr) options.name = wanted.name;
  if (wanted.full_report != 0) options.report = reprise::ReportDetail::full;
  if (wanted.keep_template != 0) options.keep_graph = reprise::KeepGraph::yes;
  options.allow_empty = wanted.allow_empty != 0;
  options.check_input_liveness = wanted.check_inputs != 0;
  options.inputs.retain = wanted.retain_inputs != 0;
  return options;
}

}  // namespace

reprise_status reprise_graph_capture(reprise_graph* graph, const reprise_stream* stream,
                                     const reprise_capture_options* options, reprise_capture_body body, void* user) {
  return guarded("reprise_graph_capture", [&] {
    if (body == nullptr) require(nullptr, "body");
    GraphOptions wanted = options_of(options);
    std::optional<reprise::DeviceGuard> device;
    if (stream != nullptr)
      wanted.stream = stream->ref;
    else
      device.emplace(reprise::default_device());
    reprise::capture(graph_of(graph), wanted, [&](StreamRef here) {
      const reprise_stream view{std::nullopt, here};
      forget_status();
      const reprise_status status = body(user, &view);
      if (status != REPRISE_SUCCESS) throw CallbackFailed{status};
    });
  });
}

reprise_status reprise_graph_capture_begin(reprise_graph* graph, const reprise_stream* stream,
                                           const reprise_capture_options* options) {
  return guarded("reprise_graph_capture_begin", [&] {
    reprise::CUDAGraph& begun = graph_of(graph);
    const reprise::StreamGuard current(ref_of(stream));
    begun.capture_begin(options_of(options));
    graph->begun_on = stream->ref;
  });
}

reprise_status reprise_graph_capture_end(reprise_graph* graph) {
  return guarded("reprise_graph_capture_end", [&] {
    reprise::CUDAGraph& ended = graph_of(graph);
    const std::optional<StreamRef> stream = graph->begun_on;
    if (!stream) return ended.capture_end();
    const reprise::StreamGuard current(*stream);
    try {
      ended.capture_end();
    } catch (...) {
      // While the stream captures, the end was refused, and the capture continues.
      if (stream->capture_status() == reprise::CaptureStatus::none) graph->begun_on.reset();
      throw;
    }
    graph->begun_on.reset();
  });
}

reprise_status reprise_graph_capture_abandon(reprise_graph* graph) {
  return guarded("reprise_graph_capture_abandon", [&] {
    graph_of(graph).capture_abandon();
    graph->begun_on.reset();
  });
}
