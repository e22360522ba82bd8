// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/c_api/c_tests.h"

// What the tests share, and all of them.

struct objects {
  const reprise_device* device;
  reprise_stream* stream;
  reprise_graph* graph;
};

/// A stream of the default device, and an empty graph.
struct objects make_objects(void);
void destroy_objects(const struct objects* objects);

/// Calls the library until `*value` is `expected`, for ten seconds at most. `objects->graph` is empty.
void wait_for(const struct objects* objects, const int* value, int expected);

void a_function_is_captured_and_replayed(void);
void what_is_submitted_from_begin_to_end_is_captured(void);
void a_capture_whose_end_is_refused_continues(void);
void a_broken_capture_has_a_report_and_the_graph_captures_again(void);
void an_empty_capture_is_refused_unless_it_is_allowed(void);
void a_function_that_fails_abandons_the_capture_and_its_status_is_returned(void);
void an_abandoned_capture_leaves_an_empty_graph(void);
void a_kept_template_is_instantiated_and_uploaded(void);
void a_function_of_the_host_is_destroyed_once_after_the_graph(void);

void an_argument_is_changed_by_the_name_of_its_kernel(void);
void a_graph_is_updated_to_another_one(void);
void captures_share_a_pool(void);
void freed_memory_is_refused_by_a_replay_unless_the_graph_retains_it(void);
void forked_streams_are_joined(void);
void a_graph_is_written_as_dot(void);
void the_memory_of_a_graph_is_counted(void);

void null_is_refused_with_the_name_of_the_parameter(void);
void texts_begin_with_the_function_of_this_interface(void);
void structs_of_other_versions_are_read_as_far_as_they_go(void);
void a_text_is_cut_to_the_size_of_the_buffer(void);
void devices_are_found_by_their_texts(void);
void a_view_of_a_stream_is_that_stream(void);
void the_last_error_belongs_to_its_thread(void);
void memory_comes_from_the_allocator_and_returns_to_it(void);
void each_status_has_a_name(void);
