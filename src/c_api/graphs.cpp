// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "c_api/objects.h"
#include "c_api/status.h"
#include "reprise/capture_report.h"
#include "reprise/error.h"
#include "reprise/graph.h"
#include "text/format.h"

// Graphs, once they are captured.

using reprise::CaptureReport;
using namespace reprise::c_api;

reprise_status reprise_graph_create(reprise_graph** graph) {
  return guarded("reprise_graph_create", [&] {
    reprise_graph*& result = required(graph, "graph");
    result = new reprise_graph{};
  });
}

void reprise_graph_destroy(reprise_graph* graph) {
  delete graph;
}

reprise_status reprise_graph_instantiate(reprise_graph* graph) {
  return guarded("reprise_graph_instantiate", [&] { graph_of(graph).instantiate(); });
}

reprise_status reprise_graph_upload(reprise_graph* graph, const reprise_stream* stream) {
  return guarded("reprise_graph_upload", [&] { graph_of(graph).upload(ref_of(stream)); });
}

reprise_status reprise_graph_replay(reprise_graph* graph, const reprise_stream* stream) {
  return guarded("reprise_graph_replay", [&] { graph_of(graph).replay(ref_of(stream)); });
}

reprise_status reprise_graph_update(reprise_graph* graph, const reprise_graph* other) {
  return guarded("reprise_graph_update", [&] { graph_of(graph).update(required(other, "other").graph); });
}

reprise_status reprise_graph_reset(reprise_graph* graph) {
  return guarded("reprise_graph_reset", [&] { graph_of(graph).reset(); });
}

reprise_status reprise_graph_node_count(const reprise_graph* graph, size_t* count) {
  return guarded("reprise_graph_node_count", [&] { required(count, "count") = graph_of(graph).node_count(); });
}

reprise_status reprise_graph_node_text(const reprise_graph* graph, size_t index, char* buffer, size_t size,
                                       size_t* length) {
  return guarded("reprise_graph_node_text", [&] {
    const std::vector<reprise::GraphNode> nodes = graph_of(graph).nodes();
    if (index >= nodes.size())
      throw reprise::UsageError(reprise::text::format(
          "expected the number of a node; the graph has {}, numbered from 0; found {}", nodes.size(), index));
    write_text(nodes[index].str(), buffer, size, length);
  });
}

reprise_status reprise_graph_set_arg(reprise_graph* graph, const char* node, size_t index, const void* value,
                                     size_t bytes) {
  return guarded("reprise_graph_set_arg", [&] {
    require(node, "node");
    require(value, "value");
    graph_of(graph).node(node).set_arg_bytes(index, {static_cast<const std::byte*>(value), bytes});
  });
}

reprise_status reprise_graph_dump_dot(const reprise_graph* graph, const char* path) {
  return guarded("reprise_graph_dump_dot", [&] {
    require(path, "path");
    graph_of(graph).debug_dump(path);
  });
}

reprise_status reprise_graph_report_text(const reprise_graph* graph, char* buffer, size_t size, size_t* length) {
  return guarded("reprise_graph_report_text", [&] {
    const std::optional<CaptureReport>& report = graph_of(graph).capture_report();
    write_text(report ? report->str() : std::string(), buffer, size, length);
  });
}

reprise_status reprise_graph_pool(const reprise_graph* graph, reprise_pool* pool) {
  return guarded("reprise_graph_pool", [&] {
    reprise_pool& result = required(pool, "pool");
    const reprise::MempoolId id = graph_of(graph).pool();
    result = {id.first, id.second};
  });
}

reprise_status reprise_graph_memory_of(const reprise_graph* graph, reprise_graph_memory* memory) {
  return guarded("reprise_graph_memory_of", [&] {
    const reprise::GraphMemory found = graph_of(graph).memory();
    write_results({0, found.nodes, found.pool.reserved_bytes, found.pool.allocated_bytes, found.estimate.host_bytes,
                   found.estimate.device_bytes},
                  memory);
  });
}
