// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/host_copies_listener.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "backend/check.h"
#include "graph/capture/kept_objects.h"
#include "inspect/liveness/graph_scan.h"
#include "inspect/liveness/thread_stack.h"
#include "memory/watches/copy_origins.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

using HostAccess = CaptureReport::HostAccess;

constexpr std::size_t most_accesses = 10;  // in the text of an error

std::string access_text(const HostAccess& access) {
  std::string text = text::format("  {} {} {} bytes at {}\n", access.node, access.writes ? "writes" : "reads",
                                  access.bytes, access.address);
  if (!access.stack.empty()) text += "    captured by:\n";
  for (const std::string& line : access.stack) text += text::format("      {}\n", line);
  return text;
}

[[noreturn]] void refuse(std::span<const HostAccess> gone, const GraphOptions& options) {
  std::string text = text::format(
      "Replays of the captured graph{} would use host memory that no longer exists: its copies read or write {} "
      "range{} of this thread's stack whose functions have returned{}. Keep the memory as long as the graph is "
      "replayed: use a variable that outlives the body of the capture, a HostBuffer, or CUDAGraph::retain(). "
      "GraphOptions::inputs.allow_stack allows such copies. The graph can capture again.\n",
      options.name.empty() ? "" : " `" + options.name + "`", gone.size(), gone.size() == 1 ? "" : "s",
      has_address_sanitizer() ? ", or memory that AddressSanitizer has poisoned" : "");
  for (const HostAccess& access : gone.first(std::min(gone.size(), most_accesses))) text += access_text(access);
  if (gone.size() > most_accesses) text += text::format("  and {} more\n", gone.size() - most_accesses);
  if (options.report != ReportDetail::full)
    text +=
        "  With GraphOptions::report = ReportDetail::full, the calls of this library that captured them are named.\n";
  throw UsageError(text);
}

void require_lasting_functions(captures::Capture& capture, const void* end_frame) {
  const auto kept = graphs::KeptObjects::find(capture);
  if (kept == nullptr || capture.options().inputs.allow_stack) return;
  const AddressRange ended = ended_stack(end_frame);
  const std::vector<std::span<const std::byte>> functions = kept->functions();
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (const auto found = find_reference(functions[i], ended))
      throw UsageError(text::format(
          "Replays of the captured graph{} would call a function of launch_host() that refers to a destroyed local "
          "variable: call {} of launch_host() in the capture was passed one with the address {} of this "
          "thread's stack, at offset {}. Capture by value ([=]), or what outlives the graph. "
          "GraphOptions::inputs.allow_stack allows it, also for bytes that no code wrote. The graph can "
          "capture again.",
          capture.name().empty() ? "" : " `" + capture.name() + "`", i + 1, found->address, found->offset));
}

}  // namespace

void HostCopiesListener::ended(captures::Capture& capture, graphs::CapturedGraph& graph) {
  require_lasting_functions(capture, graph.end_frame);
  const GraphOptions& options = capture.options();
  const bool lists = options.report == ReportDetail::full;
  if (!graph.may_copy || (options.inputs.allow_stack && !lists)) return;
  backend::Backend& backend = capture.device().backend();
  const AddressRange ended = ended_stack(graph.end_frame);
  const GraphScan scan = scan_graph(backend, graph.template_graph, ScannedNodes::copies, graph.known);
  graph.may_copy = !scan.nodes.empty();
  std::vector<HostAccess> gone;
  for (const ScannedWord& word : scan.words) {
    const ScannedNode& node = scan.nodes[word.node];
    const auto* const address = reinterpret_cast<const void*>(word.value);
    const bool writes = word.place == copy_destination;
    const std::size_t bytes = writes ? node.written_bytes : node.read_bytes;
    const bool is_gone = ended.overlaps(address_in_stack(word.value), bytes) || is_poisoned(address, bytes);
    if (!is_gone && !lists) continue;
    if (!is_gone && backend::Checked(backend).info_of(address).kind != backend::MemoryKind::unregistered) continue;
    HostAccess access{address, bytes, writes, use_text(backend, node, word.place, annotations_.annotation_of(node)),
                      memory::copy_origin(capture, address)};
    if (is_gone && !options.inputs.allow_stack)
      gone.push_back(std::move(access));
    else
      graph.host_accesses.push_back(std::move(access));
  }
  if (!gone.empty()) refuse(gone, options);
  for (const Omission& omission : scan.omissions) {
    const ScannedNode& node = scan.nodes[omission.node];
    graph.notes.push_back(text::format("Copies from or to host memory that no longer exists may not be found: {}.",
                                       omission_text(backend, node, omission, annotations_.annotation_of(node))));
  }
}

}  // namespace reprise::inspect
