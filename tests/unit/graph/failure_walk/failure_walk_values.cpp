// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <span>
#include <vector>

#include "tests/unit/graph/failure_walk/failure_walk_scenarios.h"

// Operations on graphs with child graphs, control flow and allocation nodes, after whose failures the values that a
// replay leaves are compared.

namespace reprise::graphs::test::walk {
namespace {

// Is 1 in each replay.
const std::uint32_t* flag(const Stage& s) {
  return reinterpret_cast<const std::uint32_t*>(s.values.data() + Stage::flag);
}

void add_to(const Stage& s, std::size_t index, int amount) {
  launch(1, Add{}, s.values.data() + index, amount, std::size_t{1});
}

// One thread adds to the first of two values.
void add_with_one_thread(const Stage& s, std::size_t index, int amount) {
  launch(current_stream(), LaunchConfig{}, Add{}, s.values.data() + index, amount, std::size_t{2});
}

// A kernel, a copy, a set, and a kernel that more threads would change.
CUDAGraph captured_child(Stage& s, int amount) {
  CUDAGraph child;
  capture(child, [&] {
    add_to(s, 0, amount);
    copy_async(s.values.data() + 1, s.values.data() + amount + 1, sizeof(int));
    fill_async(s.values.data() + 5, amount, sizeof(int));
    add_with_one_thread(s, 2, amount);
  });
  return child;
}

void capture_around_a_child(Stage& s, CUDAGraph& graph, int amount) {
  const CUDAGraph child = captured_child(s, amount);
  CUDAGraph middle;
  capture(middle, [&] { add_child(child); });
  capture(graph, [&] {
    add_child(middle);
    add_to(s, 4, amount);
    s.increment();
  });
}

void branches(Stage& s, int amount) {
  if_(flag(s), [&] { add_to(s, 0, amount); });
  if_else(
      flag(s), [&] { add_to(s, 1, amount); }, [&] { add_to(s, 1, 100); });
  switch_(flag(s), {[&] { add_to(s, 2, 100); }, [&] { add_to(s, 2, amount); }});
  s.increment();
}

void loops(Stage& s, int amount) {
  while_(flag(s),
         [&] {
           add_to(s, 0, amount);
           if_(flag(s), [&] { add_to(s, 1, amount); });
         },
         {.max_iterations = 3});
  s.increment();
}

// The second body runs: all types of nodes that can be changed, and a child.
void three_bodies(Stage& s, const CUDAGraph& child, int amount) {
  switch_(flag(s), {[&] { add_to(s, 4, 100); },
                    [&] {
                      add_with_one_thread(s, 2, amount);
                      copy_async(s.values.data() + 6, s.values.data() + amount + 1, sizeof(int));
                      fill_async(s.values.data() + 4, amount, sizeof(int));
                      add_child(child);
                    },
                    [&] { add_to(s, 4, 200); }});
  s.increment();
}

void capture_three_bodies(Stage& s, CUDAGraph& graph, int amount) {
  const CUDAGraph child = captured_child(s, amount);
  capture(graph, [&] { three_bodies(s, child, amount); });
}

void prepare_child_graph(Stage& s) {
  capture_around_a_child(s, s.graph, 1);
}

void prepare_ready_child_graph(Stage& s) {
  prepare_child_graph(s);
  s.graph.instantiate();
}

void prepare_branches(Stage& s) {
  capture(s.graph, [&] { branches(s, 1); });
}

void prepare_loops(Stage& s) {
  capture(s.graph, [&] { loops(s, 1); });
}

void prepare_ready_loops(Stage& s) {
  prepare_loops(s);
  s.graph.instantiate();
}

void prepare_three_bodies(Stage& s) {
  capture_three_bodies(s, s.graph, 1);
}

void prepare_ready_three_bodies(Stage& s) {
  prepare_three_bodies(s);
  s.graph.instantiate();
}

void prepare_two_graphs_with_three_bodies(Stage& s) {
  prepare_three_bodies(s);
  capture_three_bodies(s, s.helper, 2);
}

void change_a_kernel_of_a_child(Stage& s) {
  s.graph.node("0.0.0").set_arg(1, 50);
}

void change_a_copy_of_a_child(Stage& s) {
  s.graph.node("0.0.1").set_params(MemcpyNodeParams{s.values.data() + 2, s.values.data() + 3, sizeof(int)});
}

void change_a_set_of_a_child(Stage& s) {
  s.graph.node("0.0.2").set_params(MemsetNodeParams{s.values.data() + 3, 7, 1, sizeof(int)});
}

void change_a_launch_of_a_child(Stage& s) {
  s.graph.node("0.0.3").set_params(LaunchConfig{.block = Dim3(2)});
}

// The conditional nodes follow the kernels that set their conditions.
void change_a_branch(Stage& s) {
  s.graph.node("5.1.0").set_arg(1, 50);
}

void change_a_body_within_a_body(Stage& s) {
  s.graph.node("1.0.2.0.0").set_arg(1, 50);
}

void change_a_launch_of_a_body(Stage& s) {
  s.graph.node("1.1.0").set_params(LaunchConfig{.block = Dim3(2)});
}

void change_a_copy_of_a_body(Stage& s) {
  s.graph.node("1.1.1").set_params(MemcpyNodeParams{s.values.data() + 6, s.values.data() + 5, sizeof(int)});
}

void change_a_set_of_a_body(Stage& s) {
  s.graph.node("1.1.2").set_params(MemsetNodeParams{s.values.data() + 4, 7, 1, sizeof(int)});
}

void change_a_kernel_of_a_child_in_a_body(Stage& s) {
  s.graph.node("1.1.3.0").set_arg(1, 50);
}

void disable_a_kernel(Stage& s) {
  s.graph.node("1").set_enabled(false);
}

void disable_in_a_child(Stage& s) {
  try {
    s.graph.node("0.0.0").set_enabled(false);
  } catch (const UsageError&) {
  }
}

const Parameter<int>& amount_of_all() {
  static const Parameter<int> amount(1);
  return amount;
}

// The amount is an argument in all bodies; the address is one in the children as well, and that of a copy and a set.
void prepare_parameters(Stage& s) {
  const CUDAGraph child = captured_child(s, 1);
  const auto add_amount = [&](std::size_t index) {
    launch(1, Add{}, s.values.data() + index, amount_of_all(), std::size_t{1});
  };
  capture(s.graph, [&] {
    add_child(child);
    if_(flag(s), [&] { add_amount(0); });
    while_(flag(s), [&] { add_amount(1); }, {.max_iterations = 2});
    switch_(flag(s), {[&] { add_amount(2); },
                      [&] {
                        copy_async(s.values.data() + 6, s.values.data(), sizeof(int));
                        fill_async(s.values.data(), 1, sizeof(int));
                        add_child(child);
                      },
                      [&] { add_amount(4); }});
    s.increment();
  });
}

void prepare_ready_parameters(Stage& s) {
  prepare_parameters(s);
  s.graph.instantiate();
}

void set_inner_parameters(Stage& s) {
  s.graph.set({{amount_of_all(), 20}, {s.graph.parameter(s.values.data()), s.values.data() + 3}});
}

void prepare_update_around_children(Stage& s) {
  capture_around_a_child(s, s.graph, 1);
  capture_around_a_child(s, s.helper, 2);
}

void prepare_update_of_a_ready_graph(Stage& s) {
  prepare_update_around_children(s);
  s.graph.instantiate();
}

void update_to_helper(Stage& s) {
  s.graph.update(s.helper);
}

void prepare_update_of_branches(Stage& s) {
  prepare_branches(s);
  capture(s.helper, [&] { branches(s, 2); });
}

void prepare_update_to_another_child(Stage& s) {
  prepare_child_graph(s);
  const CUDAGraph child = captured_child(s, 2);
  capture(s.helper, [&] {
    add_child(child);
    add_to(s, 4, 2);
    s.increment();
  });
}

void refused_inner_update(Stage& s) {
  try {
    update_to_helper(s);
  } catch (const GraphUpdateError&) {
  }
}

void find_differences(Stage& s) {
  (void)diff(s.graph, s.helper);
}

void find_differences_of_the_second(Stage& s) {
  (void)diff(s.helper, s.graph);
}

void recapture_around_a_child(Stage& s) {
  const CUDAGraph child = captured_child(s, 2);
  CUDAGraph middle;
  capture(middle, [&] { add_child(child); });
  s.graph.recapture([&] {
    add_child(middle);
    add_to(s, 4, 2);
    s.increment();
  });
}

void recapture_branches(Stage& s) {
  s.graph.recapture([&] { branches(s, 2); });
}

void recapture_loops(Stage& s) {
  s.graph.recapture([&] { loops(s, 2); });
}

void recapture_three_bodies(Stage& s) {
  const CUDAGraph child = captured_child(s, 2);
  s.graph.recapture([&] { three_bodies(s, child, 2); });
}

void recapture_that_fails_in_a_body(Stage& s) {
  try {
    s.graph.recapture([&] {
      while_(flag(s),
             [&] {
               add_to(s, 0, 2);
               if_(flag(s), [] { throw BodyFailed(); });
             },
             {.max_iterations = 3});
    });
  } catch (const BodyFailed&) {
  }
}

void capture_with_allocation_nodes(Stage& s) {
  capture(s.graph, [&] {
    for (const std::size_t index : {std::size_t{0}, std::size_t{1}}) {
      auto* const memory = static_cast<int*>(allocate_async(sizeof(int)));
      fill_async(memory, 1, sizeof(int));
      launch(1, Add{}, memory, 5, std::size_t{1});
      copy_async(s.values.data() + index, memory, sizeof(int));
      free_async(memory);
    }
    s.increment();
  });
}

constexpr Scenario that_change[] = {
    {"change_of_a_kernel_in_a_child", made, prepare_child_graph, change_a_kernel_of_a_child, Left::ready, Left::ready},
    {"change_of_a_kernel_in_a_child_of_a_template", kept, prepare_child_graph, change_a_kernel_of_a_child,
     Left::captured, Left::captured},
    {"change_of_a_copy_in_a_child", made, prepare_child_graph, change_a_copy_of_a_child, Left::ready, Left::ready},
    {"change_of_a_set_in_a_child", kept, prepare_ready_child_graph, change_a_set_of_a_child, Left::ready, Left::ready},
    {"change_of_a_launch_in_a_child", made, prepare_child_graph, change_a_launch_of_a_child, Left::ready, Left::ready},
    {"change_of_a_launch_in_a_body", made, prepare_three_bodies, change_a_launch_of_a_body, Left::ready, Left::ready},
    {"change_of_a_copy_in_a_body", kept, prepare_ready_three_bodies, change_a_copy_of_a_body, Left::ready, Left::ready},
    {"change_of_a_set_in_a_body", made, prepare_three_bodies, change_a_set_of_a_body, Left::ready, Left::ready},
    {"change_of_a_kernel_in_a_child_in_a_body", made, prepare_three_bodies, change_a_kernel_of_a_child_in_a_body,
     Left::ready, Left::ready},
    {"change_of_a_kernel_in_a_branch", made, prepare_branches, change_a_branch, Left::ready, Left::ready},
    {"change_of_a_kernel_in_a_branch_of_a_template", kept, prepare_branches, change_a_branch, Left::captured,
     Left::captured},
    {"change_of_a_kernel_in_a_body_within_a_body", made, prepare_loops, change_a_body_within_a_body, Left::ready,
     Left::ready},
    {"disabling_of_a_kernel", made, prepare_child_graph, disable_a_kernel, Left::ready, Left::ready},
    {"disabling_of_a_kernel_of_a_kept_graph", kept, prepare_ready_child_graph, disable_a_kernel, Left::ready,
     Left::ready},
    {"parameters_in_a_child_and_bodies", made, prepare_parameters, set_inner_parameters, Left::ready, Left::ready},
    {"parameters_in_a_child_and_bodies_of_a_template", kept, prepare_parameters, set_inner_parameters, Left::captured,
     Left::captured},
    {"parameters_in_a_child_and_bodies_of_a_kept_graph", kept, prepare_ready_parameters, set_inner_parameters,
     Left::ready, Left::ready},
    {"update_of_a_child", made, prepare_update_around_children, update_to_helper, Left::ready, Left::ready},
    {"update_of_a_child_of_a_kept_graph", kept, prepare_update_of_a_ready_graph, update_to_helper, Left::ready,
     Left::ready},
    {"update_of_a_child_without_an_executable", kept, prepare_update_around_children, update_to_helper, Left::captured,
     Left::captured},
    {"recapture_with_a_child", made, prepare_child_graph, recapture_around_a_child, Left::ready, Left::ready},
    {"recapture_with_a_child_of_a_kept_graph", kept, prepare_ready_child_graph, recapture_around_a_child, Left::ready,
     Left::ready},
    {"recapture_of_branches", made, prepare_branches, recapture_branches, Left::ready, Left::ready},
    {"recapture_of_loops", made, prepare_loops, recapture_loops, Left::ready, Left::ready},
    {"recapture_of_loops_of_a_kept_graph", kept, prepare_ready_loops, recapture_loops, Left::ready, Left::ready},
    {"recapture_of_loops_that_become_branches", made, prepare_loops, recapture_branches, Left::ready, Left::ready},
    {"recapture_of_three_bodies", made, prepare_three_bodies, recapture_three_bodies, Left::ready, Left::ready},
    {"capture_of_three_bodies", made, nullptr, prepare_three_bodies, Left::empty, Left::ready},
    {"capture_of_branches", made, nullptr, prepare_branches, Left::empty, Left::ready},
    {"capture_of_loops", made, nullptr, prepare_loops, Left::empty, Left::ready},
    {"capture_around_children", made, nullptr, prepare_child_graph, Left::empty, Left::ready},
    {"capture_with_values_in_allocation_nodes", made, nullptr, capture_with_allocation_nodes, Left::empty, Left::ready},
};

constexpr Scenario that_change_nothing[] = {
    {"disabling_in_a_child", made, prepare_child_graph, disable_in_a_child, Left::ready, Left::ready},
    {"update_to_another_child_that_is_refused", made, prepare_update_to_another_child, refused_inner_update,
     Left::ready, Left::ready},
    {"update_of_control_flow_that_is_refused", made, prepare_update_of_branches, refused_inner_update, Left::ready,
     Left::ready},
    {"diff_of_children", made, prepare_update_around_children, find_differences, Left::ready, Left::ready},
    {"diff_of_branches", made, prepare_update_of_branches, find_differences, Left::ready, Left::ready},
    {"diff_of_three_bodies", made, prepare_two_graphs_with_three_bodies, find_differences, Left::ready, Left::ready},
    {"diff_of_three_bodies_of_the_second", made, prepare_two_graphs_with_three_bodies, find_differences_of_the_second,
     Left::ready, Left::ready},
    {"diff_of_children_of_a_template", kept, prepare_update_around_children, find_differences_of_the_second,
     Left::captured, Left::captured},
    {"recapture_that_fails_in_a_body", made, prepare_loops, recapture_that_fails_in_a_body, Left::ready, Left::ready},
    {"replay_of_three_bodies", made, prepare_three_bodies, replay, Left::ready, Left::ready},
    {"replay_of_children", made, prepare_child_graph, replay, Left::ready, Left::ready},
    {"replay_of_branches", made, prepare_branches, replay, Left::ready, Left::ready},
    {"replay_of_loops", made, prepare_loops, replay, Left::ready, Left::ready},
    {"replay_of_allocation_nodes", made, capture_with_allocation_nodes, replay, Left::ready, Left::ready},
};

}  // namespace

std::span<const Scenario> scenarios_of_values() {
  static const std::vector<Scenario> all = [] {
    std::vector<Scenario> compared;
    const auto add = [&](std::span<const Scenario> scenarios, Values values) {
      for (Scenario each : scenarios) {
        each.values = values;
        compared.push_back(each);
      }
    };
    add(that_change, Values::change);
    add(that_change_nothing, Values::stay);
    return compared;
  }();
  return all;
}

}  // namespace reprise::graphs::test::walk
