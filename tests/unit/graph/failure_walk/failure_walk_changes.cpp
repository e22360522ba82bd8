// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/unit/graph/failure_walk/failure_walk_scenarios.h"

namespace reprise::graphs::test::walk {
namespace {

// The two graphs have memory, random numbers, annotations, inputs that are kept, and retained objects.
void capture_for_update(Stage& s, CUDAGraph& graph, unsigned char value) {
  const GraphOptions options{.enable_annotations = true, .inputs = {.retain = true}};
  const auto generator = std::make_shared<Generator>(s.device);
  capture(graph, options, [&] {
    const annotate scope("update");
    graph.retain(generator);
    generator->philox_state(1);
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(value);
    s.increment();
  });
}

void prepare_update(Stage& s) {
  capture_for_update(s, s.graph, 1);
  capture_for_update(s, s.helper, 2);
}

void prepare_update_of_a_kept_graph(Stage& s) {
  prepare_update(s);
  s.graph.instantiate();
}

void update(Stage& s) {
  s.graph.update(s.helper);
}

// The nodes of the helper are others.
void prepare_refused_update(Stage& s) {
  capture_plainly(s);
  capture(s.helper, [&] { s.y.fill_bytes_async(0); });
}

void refused_update(Stage& s) {
  try {
    s.graph.update(s.helper);
  } catch (const GraphUpdateError&) {
  }
}

void recapture_in_place(Stage& s) {
  s.graph.recapture([&] {
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(1);
    s.increment();
  });
}

void recapture_anew(Stage& s) {
  s.graph.recapture([&] {
    s.y.fill_bytes_async(0);
    const Buffer<int> scratch(segment_size);
    s.increment();
    s.y.fill_bytes_async(0);
  });
}

void prepare_comparison(Stage& s) {
  capture(s.graph, [&] {
    Buffer<int> scratch(16);
    scratch.fill_bytes_async(1);
    s.side.wait(current_stream());
    fill_async(s.y.data(), 0, sizeof(int), s.side);
    s.increment();
    current_stream().wait(s.side);
  });
}

// A set has another value.
void compare_again(Stage& s) {
  (void)compare(s.graph, [&] {
    Buffer<int> scratch(16);
    scratch.fill_bytes_async(1);
    s.side.wait(current_stream());
    fill_async(s.y.data(), 1, sizeof(int), s.side);
    s.increment();
    current_stream().wait(s.side);
  });
}

// The two differ at a loop, which does not run.
void loop_and_increment(Stage& s, int amount) {
  const auto* const condition = reinterpret_cast<const std::uint32_t*>(s.y.data());
  while_(condition, [&] { add(s.y, amount); }, {.max_iterations = 2});
  s.increment();
}

void prepare_comparison_of_control_flow(Stage& s) {
  capture(s.graph, [&] { loop_and_increment(s, 1); });
}

void compare_control_flow(Stage& s) {
  (void)compare(s.graph, [&] { loop_and_increment(s, 2); });
}

// Nodes that can be changed: the last one is the increment.
void capture_changeable(Stage& s, const GraphOptions& options) {
  pinned_memory();
  capture(s.graph, options, [&] {
    copy_async(s.y.data(), pinned_memory(), sizeof(int));
    fill_async(s.y.data(), 0, sizeof(int));
    multiply(s.y, 2, s.y);
    s.increment();
  });
}

void prepare_changeable(Stage& s) {
  capture_changeable(s, {});
}

void prepare_changeable_ready(Stage& s) {
  capture_changeable(s, {});
  s.graph.instantiate();
}

void prepare_changeable_with_liveness(Stage& s) {
  capture_changeable(s, {.check_input_liveness = true, .inputs = {.scope = Liveness::all}});
}

void prepare_changeable_that_retains(Stage& s) {
  capture_changeable(s, {.inputs = {.retain = true}});
}

void read_nodes(Stage& s) {
  for (const GraphNode& node : s.graph.nodes()) {
    (void)node.str();
    (void)node.name();
    (void)node.dependencies();
  }
  (void)s.graph.node("Multiply").args();
}

void change_nodes(Stage& s) {
  const std::vector<GraphNode> nodes = s.graph.nodes();
  nodes[0].set_params(MemcpyNodeParams{s.x.data(), pinned_memory(), 1});
  nodes[0].set_params(MemcpyNodeParams{s.y.data(), pinned_memory(), 1});
  nodes[1].set_params(MemsetNodeParams{s.y.data(), 1, 2, 1});
  nodes[2].set_arg(1, 5);
  nodes[2].set_params(LaunchConfig{.block = Dim3(32)});
  nodes[2].set_enabled(false);
}

void prepare_disabled(Stage& s) {
  prepare_changeable_ready(s);
  s.graph.nodes()[2].set_enabled(false);
}

const Parameter<int>& walked_factor() {
  static const Parameter<int> factor(2);
  return factor;
}

void capture_with_parameters(Stage& s) {
  capture(s.graph, [&] {
    for (int i = 0; i < 3; ++i) launch(1, Multiply{}, s.y.data(), walked_factor(), s.y.data(), s.y.size());
    s.increment();
  });
}

void set_parameters(Stage& s) {
  const Parameter<int*> y = s.graph.parameter(s.y.data());
  const Buffer<int> other(1);
  s.graph.set({{walked_factor(), 3}, {y, other.data()}});
  s.graph.set({{walked_factor(), 4}, {y, s.y.data()}});
}

constexpr Scenario of_changes[] = {
    {"nodes", made, prepare_changeable, read_nodes, Left::ready, Left::ready},
    {"change_of_nodes", made, prepare_changeable, change_nodes, Left::ready, Left::ready},
    {"change_of_nodes_of_a_template", kept, prepare_changeable, change_nodes, Left::captured, Left::captured},
    {"change_of_nodes_of_a_kept_graph", kept, prepare_changeable_ready, change_nodes, Left::ready, Left::ready},
    {"change_of_nodes_with_liveness", made, prepare_changeable_with_liveness, change_nodes, Left::ready, Left::ready},
    {"change_of_nodes_that_retains", made, prepare_changeable_that_retains, change_nodes, Left::ready, Left::ready},
    {"instantiate_with_disabled_nodes", kept, prepare_disabled, instantiate, Left::ready, Left::ready},
    {"capture_with_parameters", made, nullptr, capture_with_parameters, Left::empty, Left::ready},
    {"parameters", made, capture_with_parameters, set_parameters, Left::ready, Left::ready},
    {"parameters_of_a_kept_graph", kept, capture_with_parameters, set_parameters, Left::captured, Left::captured},
    {"update", made, prepare_update, update, Left::ready, Left::ready},
    {"update_of_a_kept_graph", kept, prepare_update_of_a_kept_graph, update, Left::ready, Left::ready},
    {"update_without_an_executable", kept, prepare_update, update, Left::captured, Left::captured},
    {"update_that_is_refused", made, prepare_refused_update, refused_update, Left::ready, Left::ready},
    {"recapture_in_place", made, capture_with_allocations, recapture_in_place, Left::ready, Left::ready},
    {"recapture_in_place_of_a_kept_graph", kept, prepare_replayed, recapture_in_place, Left::ready, Left::ready},
    {"recapture_with_a_new_executable", made, capture_with_allocations, recapture_anew, Left::ready, Left::ready},
    {"recapture_with_a_new_executable_of_a_kept_graph", kept, prepare_replayed, recapture_anew, Left::ready,
     Left::ready},
    {"compare", made, prepare_comparison, compare_again, Left::ready, Left::ready},
    {"compare_control_flow", made, prepare_comparison_of_control_flow, compare_control_flow, Left::ready, Left::ready},
};

}  // namespace

std::span<const Scenario> scenarios_of_changes() {
  return of_changes;
}

}  // namespace reprise::graphs::test::walk
