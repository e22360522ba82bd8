// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/contracts/contract.h"

#include <algorithm>

namespace reprise::backend::test {
namespace {

template <class T>
void take(std::vector<T>& from, T what) {
  from.erase(std::remove(from.begin(), from.end(), what), from.end());
}

}  // namespace

std::string text(const Result& result) {
  return std::to_string(static_cast<int>(result.code())) + " " + result_name(result.code());
}

std::vector<Device> usable_devices() {
  std::vector<Device> devices = reprise::devices();
#if !defined(__CUDACC__)
  std::erase_if(devices, [](const Device& device) { return device.type() == DeviceType::cuda; });
#endif
  return devices;
}

std::string test_name_of(const Device& device) {
  return (device.type() == DeviceType::host ? "host" : "cuda") + std::to_string(device.index());
}

void Contract::TearDown() {
  for (Gate& gate : gates_) gate.open();
  end_forgotten_captures();
  EXPECT_OK(backend().device_synchronize());
  for (auto* exec : execs_) EXPECT_OK(backend().graph_exec_destroy(exec));
  for (auto* graph : graphs_) EXPECT_OK(backend().graph_destroy(graph));
  for (auto* event : events_) EXPECT_OK(backend().event_destroy(event));
  for (auto* stream : streams_) EXPECT_OK(backend().stream_destroy(stream));
  for (void* pointer : memory_) EXPECT_OK(backend().memory_free(pointer));
  for (void* pointer : pinned_) EXPECT_OK(backend().pinned_free(pointer));
}

void Contract::end_forgotten_captures() {
  for (auto* stream : streams_) {
    CaptureStatus status = CaptureStatus::none;
    if (backend().stream_is_capturing(stream, &status) != ErrorCode::success || status == CaptureStatus::none) continue;
    ADD_FAILURE() << "the test left a capture underway";
    GraphHandle graph = nullptr;
    (void)backend().stream_end_capture(stream, &graph);
    if (graph != nullptr) (void)backend().graph_destroy(graph);
  }
}

StreamHandle Contract::new_stream(StreamFlags flags, int priority) {
  StreamHandle stream = nullptr;
  EXPECT_OK(backend().stream_create(&stream, flags, priority));
  streams_.push_back(stream);
  return stream;
}

EventHandle Contract::new_event(EventFlags flags) {
  EventHandle event = nullptr;
  EXPECT_OK(backend().event_create(&event, flags));
  events_.push_back(event);
  return event;
}

GraphHandle Contract::new_graph() {
  GraphHandle graph = nullptr;
  EXPECT_OK(backend().graph_create(&graph));
  return own(graph);
}

GraphHandle Contract::own(GraphHandle graph) {
  graphs_.push_back(graph);
  return graph;
}

GraphExecHandle Contract::instantiate(GraphHandle graph) {
  GraphExecHandle exec = nullptr;
  EXPECT_OK(backend().graph_instantiate(&exec, graph, InstantiateFlags::none, nullptr));
  execs_.push_back(exec);
  return exec;
}

void Contract::destroy(StreamHandle stream) {
  take(streams_, stream);
  EXPECT_OK(backend().stream_destroy(stream));
}

void Contract::destroy(EventHandle event) {
  take(events_, event);
  EXPECT_OK(backend().event_destroy(event));
}

void Contract::destroy(GraphHandle graph) {
  take(graphs_, graph);
  EXPECT_OK(backend().graph_destroy(graph));
}

void Contract::destroy(GraphExecHandle exec) {
  take(execs_, exec);
  EXPECT_OK(backend().graph_exec_destroy(exec));
}

void* Contract::allocate(std::size_t bytes) {
  void* pointer = nullptr;
  EXPECT_OK(backend().memory_allocate(&pointer, bytes));
  EXPECT_OK(backend().set({pointer, 0, 1, bytes}));
  // The set may return before it is done, and the legacy stream does not hold back the non-blocking ones.
  EXPECT_OK(backend().stream_synchronize(nullptr));
  memory_.push_back(pointer);
  return pointer;
}

void* Contract::allocate_pinned(std::size_t bytes) {
  void* pointer = nullptr;
  EXPECT_OK(backend().pinned_allocate(&pointer, bytes));
  pinned_.push_back(pointer);
  std::fill_n(static_cast<unsigned char*>(pointer), bytes, static_cast<unsigned char>(0));
  return pointer;
}

GraphNodeHandle Contract::add(GraphHandle graph, NodeParams params, const std::vector<GraphNodeHandle>& dependencies) {
  GraphNodeHandle node = nullptr;
  EXPECT_OK(backend().graph_add_node(&node, graph, dependencies, params));
  return node;
}

void Contract::run(GraphExecHandle exec, StreamHandle stream) {
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
}

std::vector<GraphNodeHandle> Contract::nodes_of(GraphHandle graph) {
  std::vector<GraphNodeHandle> nodes;
  EXPECT_OK(backend().graph_nodes(graph, &nodes));
  return nodes;
}

std::vector<std::pair<GraphNodeHandle, GraphNodeHandle>> Contract::edges_of(GraphHandle graph) {
  std::vector<Edge> edges;
  EXPECT_OK(backend().graph_edges(graph, &edges));
  std::vector<std::pair<GraphNodeHandle, GraphNodeHandle>> pairs;
  for (const Edge& edge : edges) pairs.emplace_back(edge.from, edge.to);
  return pairs;
}

NodeType Contract::type_of(GraphNodeHandle node) {
  NodeType type = NodeType::empty;
  EXPECT_OK(backend().graph_node_type(node, &type));
  return type;
}

CaptureStatus Contract::status_of(StreamHandle stream) {
  CaptureStatus status = CaptureStatus::none;
  EXPECT_OK(backend().stream_is_capturing(stream, &status));
  return status;
}

GraphHandle Contract::end_capture(StreamHandle stream) {
  GraphHandle graph = nullptr;
  EXPECT_OK(backend().stream_end_capture(stream, &graph));
  EXPECT_NE(graph, nullptr);
  return graph != nullptr ? own(graph) : nullptr;
}

void Contract::expect_can_capture(StreamHandle stream) {
  EXPECT_EQ(status_of(stream), CaptureStatus::none);
  int* value = new_memory<int>();
  begin_capture(stream);
  EXPECT_OK(launch(stream, Store{}, value, 7));
  GraphHandle graph = end_capture(stream);
  if (graph == nullptr) return;
  run(instantiate(graph), stream);
  EXPECT_EQ(read(value), 7);
}

}  // namespace reprise::backend::test
