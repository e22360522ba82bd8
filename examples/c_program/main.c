// SPDX-License-Identifier: Apache-2.0
#include <reprise/c_api.h>
#include <stdio.h>
#include <stdlib.h>

static float values[4] = {8, 16, 24, 32};

static void check(reprise_status status) {
  if (status == REPRISE_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", reprise_status_name(status), reprise_last_error());
  exit(1);
}

static void halve(void* user) {
  float* numbers = user;
  for (int i = 0; i < 4; ++i) numbers[i] /= 2;
}

// The work of a step, on memory of the device. A CUDA kernel would be launched on `reprise_stream_native(stream)`.
static reprise_status step(void* memory, const reprise_stream* stream) {
  reprise_status status = reprise_copy(values, memory, sizeof values, stream);
  if (!status) status = reprise_launch_host(stream, halve, values, NULL);
  if (!status) status = reprise_copy(memory, values, sizeof values, stream);
  return status;
}

// A step with the most frequent mistake: it waits while it is being captured.
static reprise_status waiting_step(void* memory, const reprise_stream* stream) {
  reprise_status status = step(memory, stream);
  return status ? status : reprise_stream_synchronize(stream);
}

int main(void) {
  const reprise_device* device;
  reprise_stream* stream;
  reprise_graph* graph;
  void* memory;
  check(reprise_device_default(&device));
  check(reprise_stream_create(device, NULL, &stream));
  check(reprise_graph_create(&graph));
  check(reprise_allocate(sizeof values, stream, &memory));
  check(reprise_copy(memory, values, sizeof values, stream));

  if (reprise_graph_capture(graph, stream, NULL, waiting_step, memory) == REPRISE_SUCCESS) return 1;
  char report[4096];
  check(reprise_graph_report_text(graph, report, sizeof report, NULL));
  fprintf(stderr, "%s\n", report);

  reprise_capture_options options = {.struct_size = sizeof options, .name = "step"};
  check(reprise_graph_capture(graph, stream, &options, step, memory));
  for (int i = 0; i < 3; ++i) check(reprise_graph_replay(graph, stream));
  check(reprise_stream_synchronize(stream));
  size_t nodes;
  check(reprise_graph_node_count(graph, &nodes));
  printf("%zu nodes, three replays: %g %g %g %g\n", nodes, values[0], values[1], values[2], values[3]);

  reprise_graph_destroy(graph);
  check(reprise_free(device, memory));
  reprise_stream_destroy(stream);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "c_program: failed: standard output cannot be written\n");
    return 1;
  }
  return 0;
}
