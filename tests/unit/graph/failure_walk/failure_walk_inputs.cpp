// SPDX-License-Identifier: Apache-2.0
#include <new>

#include "tests/unit/graph/failure_walk/failure_walk_scenarios.h"

namespace reprise::graphs::test::walk {

void* pinned_memory() {
  static void* const memory = [] {
    void* pinned = nullptr;
    backend::Checked(default_device().backend()).pinned_allocate(&pinned, sizeof(void*));
    return new (pinned) void*(nullptr);
  }();
  return memory;
}

namespace {

void capture_inputs(Stage& s, const GraphOptions& options) {
  capture(s.graph, options, [&] {
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(0);
    copy_async(s.y.data(), pinned_memory(), sizeof(int));
    s.increment();
  });
}

void prepare_pinned(Stage& /*s*/) {
  pinned_memory();
}

void capture_with_liveness(Stage& s) {
  capture_inputs(s, {.check_input_liveness = true});
}

void capture_with_liveness_of_all(Stage& s) {
  capture_inputs(s, {.check_input_liveness = true, .inputs = {.scope = Liveness::all}});
}

void capture_with_checked_values(Stage& s) {
  capture(s.graph, {.check_frozen_values = no_next}, [&] {
    Buffer<int> scratch(segment_size);
    scratch.fill_bytes_async(0);
    s.increment();
  });
}

void capture_that_retains(Stage& s) {
  capture_inputs(s, {.inputs = {.retain = true}});
}

// What the graph keeps is freed with it.
void prepare_retained(Stage& s) {
  Buffer<int> input(segment_size);
  capture(s.graph, {.inputs = {.retain = true}}, [&] {
    input.fill_bytes_async(0);
    s.increment();
  });
}

constexpr Scenario of_inputs[] = {
    {"capture_with_liveness", made, prepare_pinned, capture_with_liveness, Left::empty, Left::ready},
    {"capture_with_liveness_of_all", made, prepare_pinned, capture_with_liveness_of_all, Left::empty, Left::ready},
    {"capture_with_checked_values", made, nullptr, capture_with_checked_values, Left::empty, Left::ready},
    {"capture_that_retains", made, prepare_pinned, capture_that_retains, Left::empty, Left::ready},
    {"replay_with_liveness", made, capture_with_liveness, replay, Left::ready, Left::ready},
    {"replay_with_liveness_of_all", made, capture_with_liveness_of_all, replay, Left::ready, Left::ready},
    {"reset_of_retained_inputs", made, prepare_retained, reset, Left::empty, Left::empty},
};

}  // namespace

std::span<const Scenario> scenarios_of_inputs() {
  return of_inputs;
}

}  // namespace reprise::graphs::test::walk
