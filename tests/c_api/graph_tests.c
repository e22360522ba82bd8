// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "tests/c_api/tests.h"

// Captured graphs: arguments, updates, pools, inputs, pictures, memory.

enum { count = 1000 };

static int results[count];

static int* allocate(const struct objects* o) {
  void* memory = NULL;
  EXPECT_OK(reprise_allocate(sizeof results, o->stream, &memory));
  EXPECT_OK(reprise_fill(memory, 0, sizeof results, o->stream));
  return (int*)memory;
}

// The last of the numbers after a replay.
static int replayed(const struct objects* o, const reprise_graph* graph, const int* numbers) {
  EXPECT_OK(reprise_graph_replay((reprise_graph*)graph, o->stream));
  EXPECT_OK(reprise_copy(results, numbers, sizeof results, o->stream));
  EXPECT_OK(reprise_stream_synchronize(o->stream));
  return results[count - 1];
}

static void capture_add(const struct objects* o, reprise_graph* graph, int* numbers, int value,
                        const reprise_capture_options* options) {
  EXPECT_OK(reprise_graph_capture_begin(graph, o->stream, options));
  EXPECT_OK(launch_add_to(o->stream, numbers, value, count));
  EXPECT_OK(reprise_graph_capture_end(graph));
}

void an_argument_is_changed_by_the_name_of_its_kernel(void) {
  struct objects o = make_objects();
  int* const numbers = allocate(&o);
  const int value = 10;
  const double other = 1;
  capture_add(&o, o.graph, numbers, 3, NULL);
  EXPECT(replayed(&o, o.graph, numbers) == 3);
  EXPECT_OK(reprise_graph_set_arg(o.graph, "AddTo", 1, &value, sizeof value));
  EXPECT(replayed(&o, o.graph, numbers) == 13);
  EXPECT(reprise_graph_set_arg(o.graph, "AddTo", 1, &other, sizeof other) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "is int, 4 bytes; found 8 bytes") != NULL);
  EXPECT(reprise_graph_set_arg(o.graph, "AddTo", 3, &value, sizeof value) == REPRISE_ERROR_USAGE);
  EXPECT(reprise_graph_set_arg(o.graph, "Subtract", 1, &value, sizeof value) == REPRISE_ERROR_USAGE);
  EXPECT(replayed(&o, o.graph, numbers) == 23);
  EXPECT_OK(reprise_free(o.device, numbers));
  destroy_objects(&o);
}

void a_graph_is_updated_to_another_one(void) {
  struct objects o = make_objects();
  int* const numbers = allocate(&o);
  reprise_graph* other = NULL;
  EXPECT_OK(reprise_graph_create(&other));
  capture_add(&o, o.graph, numbers, 1, NULL);
  capture_add(&o, other, numbers, 5, NULL);
  EXPECT_OK(reprise_graph_update(o.graph, other));
  EXPECT(replayed(&o, o.graph, numbers) == 5);

  EXPECT_OK(reprise_graph_reset(other));
  EXPECT_OK(reprise_graph_capture_begin(other, o.stream, NULL));
  EXPECT_OK(reprise_fill(numbers, 0, sizeof results, o.stream));
  EXPECT_OK(reprise_graph_capture_end(other));
  EXPECT(reprise_graph_update(o.graph, other) == REPRISE_ERROR_GRAPH_UPDATE);
  EXPECT(reprise_last_error_code() == 910);
  EXPECT(replayed(&o, o.graph, numbers) == 10);
  reprise_graph_destroy(other);
  EXPECT_OK(reprise_free(o.device, numbers));
  destroy_objects(&o);
}

// Captures work on memory of the graph itself, which is freed in the capture.
static void capture_own_memory(const struct objects* o, reprise_graph* graph, reprise_pool pool) {
  void* memory = NULL;
  reprise_capture_options options = {0};
  options.struct_size = sizeof options;
  options.pool = pool;
  EXPECT_OK(reprise_graph_capture_begin(graph, o->stream, &options));
  EXPECT_OK(reprise_allocate(sizeof results, o->stream, &memory));
  EXPECT_OK(reprise_fill(memory, 1, sizeof results, o->stream));
  EXPECT_OK(reprise_free(o->device, memory));
  EXPECT_OK(reprise_graph_capture_end(graph));
}

void captures_share_a_pool(void) {
  struct objects o = make_objects();
  reprise_graph* other = NULL;
  reprise_pool pool = {0, 0}, of_graph = {0, 0};
  reprise_memory_counts one, both;
  reprise_capture_options options = {0};
  options.struct_size = sizeof options;
  one.struct_size = both.struct_size = sizeof one;
  EXPECT_OK(reprise_graph_create(&other));
  EXPECT_OK(reprise_pool_create(&pool));
  EXPECT(pool.first != 0 || pool.second != 0);
  capture_own_memory(&o, o.graph, pool);
  EXPECT_OK(reprise_graph_pool(o.graph, &of_graph));
  EXPECT(of_graph.first == pool.first && of_graph.second == pool.second);
  EXPECT_OK(reprise_pool_memory_counts(o.device, pool, &one));
  EXPECT(one.reserved_bytes > 0 && one.segments == 1 && one.allocations == 0);
  capture_own_memory(&o, other, of_graph);
  EXPECT_OK(reprise_pool_memory_counts(o.device, pool, &both));
  EXPECT(both.reserved_bytes == one.reserved_bytes);
  reprise_graph_destroy(other);
  EXPECT_OK(reprise_graph_reset(o.graph));
  options.pool.second = pool.second + 1000;
  EXPECT(reprise_graph_capture_begin(o.graph, o.stream, &options) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "which no call has returned") != NULL);
  EXPECT(reprise_graph_pool(o.graph, &of_graph) == REPRISE_ERROR_USAGE);
  destroy_objects(&o);
}

void freed_memory_is_refused_by_a_replay_unless_the_graph_retains_it(void) {
  struct objects o = make_objects();
  int* numbers = allocate(&o);
  reprise_capture_options options = {0};
  options.struct_size = sizeof options;
  options.check_inputs = 1;
  capture_add(&o, o.graph, numbers, 1, &options);
  EXPECT(replayed(&o, o.graph, numbers) == 1);
  EXPECT_OK(reprise_free(o.device, numbers));
  EXPECT(reprise_graph_replay(o.graph, o.stream) == REPRISE_ERROR_DEAD_INPUT);

  EXPECT_OK(reprise_graph_reset(o.graph));
  numbers = allocate(&o);
  options.retain_inputs = 1;
  capture_add(&o, o.graph, numbers, 1, &options);
  EXPECT_OK(reprise_free(o.device, numbers));
  EXPECT(replayed(&o, o.graph, numbers) == 1);
  destroy_objects(&o);
}

void forked_streams_are_joined(void) {
  struct objects o = make_objects();
  int* const numbers = allocate(&o);
  reprise_stream* side = NULL;
  reprise_stream_options options = {0};
  char text[128];
  options.struct_size = sizeof options;
  options.priority = -1;
  EXPECT_OK(reprise_stream_create(o.device, &options, &side));
  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  EXPECT_OK(reprise_fill(numbers, 0, sizeof results, o.stream));
  EXPECT_OK(reprise_stream_wait(side, o.stream));
  EXPECT_OK(launch_add_to(side, numbers, 7, count));
  EXPECT_OK(reprise_stream_wait(o.stream, side));
  EXPECT_OK(reprise_graph_capture_end(o.graph));
  EXPECT_OK(reprise_graph_node_text(o.graph, 1, text, sizeof text, NULL));
  EXPECT(strstr(text, "AddTo (node 1)") != NULL);
  EXPECT(reprise_graph_node_text(o.graph, 2, text, sizeof text, NULL) == REPRISE_ERROR_USAGE);
  EXPECT(replayed(&o, o.graph, numbers) == 7);
  EXPECT(replayed(&o, o.graph, numbers) == 7);

  EXPECT_OK(reprise_graph_reset(o.graph));
  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  EXPECT_OK(reprise_stream_wait(side, o.stream));
  EXPECT_OK(launch_add_to(side, numbers, 7, count));
  EXPECT(reprise_graph_capture_end(o.graph) == REPRISE_ERROR_CAPTURE);
  EXPECT(reprise_last_error_code() == 904);
  reprise_stream_destroy(side);
  EXPECT_OK(reprise_free(o.device, numbers));
  destroy_objects(&o);
}

void a_graph_is_written_as_dot(void) {
  struct objects o = make_objects();
  int* const numbers = allocate(&o);
  char begin[16] = {0};
  FILE* file = NULL;
  capture_add(&o, o.graph, numbers, 1, NULL);
  EXPECT_OK(reprise_graph_dump_dot(o.graph, "graph_of_c_test.dot"));
  file = fopen("graph_of_c_test.dot", "r");
  EXPECT(file != NULL && fread(begin, 1, 7, file) == 7 && strcmp(begin, "digraph") == 0);
  if (file != NULL) fclose(file);
  remove("graph_of_c_test.dot");
  EXPECT(reprise_graph_dump_dot(o.graph, "/nonexistent/graph.dot") == REPRISE_ERROR_OTHER);
  EXPECT_OK(reprise_free(o.device, numbers));
  destroy_objects(&o);
}

void the_memory_of_a_graph_is_counted(void) {
  struct objects o = make_objects();
  const reprise_pool own = {0, 0};
  reprise_graph_memory memory;
  memset(&memory, 0xFF, sizeof memory);
  memory.struct_size = sizeof memory;
  EXPECT(reprise_graph_memory_of(o.graph, &memory) == REPRISE_ERROR_USAGE);
  capture_own_memory(&o, o.graph, own);
  EXPECT_OK(reprise_graph_memory_of(o.graph, &memory));
  EXPECT(memory.nodes == 1 && memory.pool_reserved_bytes > 0 && memory.pool_allocated_bytes == 0);
  EXPECT(memory.estimate_host_bytes < 1000000 && memory.estimate_device_bytes < 1000000);
  destroy_objects(&o);
}
