// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <string.h>

#include "tests/c_api/tests.h"

// Captures: with a function, from begin to end, broken, empty, abandoned.

enum { count = 64 };

static int source[count], target[count], doubled[count];

static void double_target(void* user) {
  int i;
  (void)user;
  for (i = 0; i < count; ++i) doubled[i] = 2 * target[i];
}

// Copies `source` to the device and back to `target`, and doubles it there.
struct step {
  int* memory;
  int runs;
  reprise_status result;
};

static reprise_status step(void* user, const reprise_stream* stream) {
  struct step* const s = (struct step*)user;
  ++s->runs;
  EXPECT_OK(reprise_copy(s->memory, source, sizeof source, stream));
  EXPECT_OK(reprise_copy(target, s->memory, sizeof target, stream));
  EXPECT_OK(reprise_launch_host(stream, double_target, NULL, NULL));
  return s->result;
}

static reprise_status synchronize(void* user, const reprise_stream* stream) {
  EXPECT_OK(step(user, stream));
  return reprise_stream_synchronize(stream);
}

static reprise_status nothing(void* user, const reprise_stream* stream) {
  (void)user;
  (void)stream;
  return REPRISE_SUCCESS;
}

static void set_source(int value) {
  int i;
  for (i = 0; i < count; ++i) source[i] = value;
}

static struct step make_step(const struct objects* o) {
  struct step made = {NULL, 0, REPRISE_SUCCESS};
  void* memory = NULL;
  EXPECT_OK(reprise_allocate(sizeof source, o->stream, &memory));
  made.memory = (int*)memory;
  return made;
}

static void replay(const struct objects* o) {
  EXPECT_OK(reprise_graph_replay(o->graph, o->stream));
  EXPECT_OK(reprise_stream_synchronize(o->stream));
}

void a_function_is_captured_and_replayed(void) {
  struct objects o = make_objects();
  struct step s = make_step(&o);
  reprise_capture_options options = {0};
  size_t nodes = 0;
  options.struct_size = sizeof options;
  options.name = "step";
  options.warmup = 2;
  EXPECT_OK(reprise_graph_capture(o.graph, NULL, &options, step, &s));
  EXPECT(s.runs == 3);
  EXPECT_OK(reprise_graph_node_count(o.graph, &nodes));
  EXPECT(nodes == 3);
  set_source(21);
  replay(&o);
  EXPECT(doubled[0] == 42 && doubled[count - 1] == 42);
  set_source(4);
  replay(&o);
  EXPECT(doubled[count - 1] == 8);
  EXPECT_OK(reprise_free(o.device, s.memory));
  destroy_objects(&o);
}

void what_is_submitted_from_begin_to_end_is_captured(void) {
  struct objects o = make_objects();
  struct step s = make_step(&o);
  int capturing = 0;
  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  EXPECT_OK(reprise_stream_is_capturing(o.stream, &capturing));
  EXPECT(capturing == 1);
  EXPECT_OK(step(&s, o.stream));
  EXPECT_OK(reprise_graph_capture_end(o.graph));
  EXPECT_OK(reprise_stream_is_capturing(o.stream, &capturing));
  EXPECT(capturing == 0);
  set_source(5);
  replay(&o);
  EXPECT(doubled[0] == 10);
  EXPECT(reprise_graph_capture_end(o.graph) == REPRISE_ERROR_USAGE);
  EXPECT_OK(reprise_free(o.device, s.memory));
  destroy_objects(&o);
}

static void* end_capture(void* graph) {
  EXPECT(reprise_graph_capture_end(graph) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "on another thread than the one that began the capture") != NULL);
  return NULL;
}

void a_capture_whose_end_is_refused_continues(void) {
  struct objects o = make_objects();
  struct step s = make_step(&o);
  pthread_t thread;
  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  EXPECT(pthread_create(&thread, NULL, end_capture, o.graph) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT_OK(step(&s, o.stream));
  EXPECT_OK(reprise_graph_capture_end(o.graph));
  set_source(6);
  replay(&o);
  EXPECT(doubled[0] == 12);
  EXPECT_OK(reprise_free(o.device, s.memory));
  destroy_objects(&o);
}

void a_broken_capture_has_a_report_and_the_graph_captures_again(void) {
  struct objects o = make_objects();
  struct step s = make_step(&o);
  char text[4096];
  size_t length = 1;
  EXPECT(reprise_graph_capture(o.graph, NULL, NULL, synchronize, &s) == REPRISE_ERROR_BACKEND);
  EXPECT(reprise_last_error_code() == 900);
  EXPECT(strstr(reprise_last_error(), "reprise_stream_synchronize: ") == reprise_last_error());
  EXPECT_OK(reprise_graph_report_text(o.graph, text, sizeof text, &length));
  EXPECT(length == strlen(text) && strstr(text, "StreamSynchronize") != NULL);

  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  EXPECT(reprise_stream_synchronize(o.stream) == REPRISE_ERROR_BACKEND);
  EXPECT(reprise_graph_capture_end(o.graph) == REPRISE_ERROR_CAPTURE);
  EXPECT(reprise_last_error_code() == 901);

  EXPECT_OK(reprise_graph_capture(o.graph, o.stream, NULL, step, &s));
  EXPECT_OK(reprise_graph_report_text(o.graph, text, sizeof text, &length));
  EXPECT(length == 0 && text[0] == '\0');
  EXPECT_OK(reprise_graph_reset(o.graph));
  EXPECT_OK(reprise_free(o.device, s.memory));
  destroy_objects(&o);
}

void an_empty_capture_is_refused_unless_it_is_allowed(void) {
  struct objects o = make_objects();
  reprise_capture_options options = {0};
  options.struct_size = sizeof options;
  EXPECT(reprise_graph_capture(o.graph, NULL, NULL, nothing, NULL) == REPRISE_ERROR_EMPTY_CAPTURE);
  EXPECT(reprise_graph_replay(o.graph, o.stream) == REPRISE_ERROR_USAGE);
  options.allow_empty = 1;
  EXPECT_OK(reprise_graph_capture(o.graph, NULL, &options, nothing, NULL));
  replay(&o);
  destroy_objects(&o);
}

void a_function_that_fails_abandons_the_capture_and_its_status_is_returned(void) {
  struct objects o = make_objects();
  struct step s = make_step(&o);
  EXPECT(reprise_graph_replay(o.graph, o.stream) == REPRISE_ERROR_USAGE);
  s.result = REPRISE_ERROR_CALLBACK;
  EXPECT(reprise_graph_capture(o.graph, NULL, NULL, step, &s) == REPRISE_ERROR_CALLBACK);
  EXPECT(strstr(reprise_last_error(), "returned REPRISE_ERROR_CALLBACK") != NULL);
  EXPECT(reprise_graph_replay(o.graph, o.stream) == REPRISE_ERROR_USAGE);
  // The text of an error before the capture is not that of the function.
  s.result = REPRISE_ERROR_USAGE;
  EXPECT(reprise_graph_capture(o.graph, NULL, NULL, step, &s) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "returned REPRISE_ERROR_USAGE") != NULL);
  s.result = REPRISE_SUCCESS;
  EXPECT_OK(reprise_graph_capture(o.graph, NULL, NULL, step, &s));
  EXPECT_OK(reprise_free(o.device, s.memory));
  destroy_objects(&o);
}

void an_abandoned_capture_leaves_an_empty_graph(void) {
  struct objects o = make_objects();
  struct step s = make_step(&o);
  EXPECT_OK(reprise_graph_capture_abandon(o.graph));
  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  EXPECT(reprise_graph_reset(o.graph) == REPRISE_ERROR_USAGE);
  EXPECT_OK(step(&s, o.stream));
  EXPECT_OK(reprise_graph_capture_abandon(o.graph));
  EXPECT_OK(reprise_stream_synchronize(o.stream));
  EXPECT(reprise_graph_replay(o.graph, o.stream) == REPRISE_ERROR_USAGE);
  // A graph that is destroyed abandons its capture.
  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  reprise_graph_destroy(o.graph);
  o.graph = NULL;
  EXPECT_OK(reprise_stream_synchronize(o.stream));
  EXPECT_OK(reprise_free(o.device, s.memory));
  destroy_objects(&o);
}

void a_kept_template_is_instantiated_and_uploaded(void) {
  struct objects o = make_objects();
  struct step s = make_step(&o);
  reprise_capture_options options = {0};
  options.struct_size = sizeof options;
  options.keep_template = 1;
  options.mode = REPRISE_CAPTURE_RELAXED;
  EXPECT_OK(reprise_graph_capture(o.graph, NULL, &options, step, &s));
  EXPECT_OK(reprise_graph_instantiate(o.graph));
  EXPECT_OK(reprise_graph_upload(o.graph, o.stream));
  set_source(1);
  replay(&o);
  EXPECT(doubled[0] == 2);
  EXPECT_OK(reprise_graph_reset(o.graph));
  EXPECT_OK(reprise_graph_capture(o.graph, NULL, NULL, step, &s));
  EXPECT(reprise_graph_instantiate(o.graph) == REPRISE_ERROR_USAGE);
  EXPECT_OK(reprise_free(o.device, s.memory));
  destroy_objects(&o);
}

static void count_call(void* user) {
  ++*(int*)user;
}

void a_function_of_the_host_is_destroyed_once_after_the_graph(void) {
  struct objects o = make_objects();
  static int calls, ends;
  calls = ends = 0;
  EXPECT_OK(reprise_graph_capture_begin(o.graph, o.stream, NULL));
  EXPECT_OK(reprise_launch_host(o.stream, count_call, &calls, NULL));
  EXPECT_OK(reprise_launch_host(o.stream, count_call, &ends, count_call));
  EXPECT_OK(reprise_graph_capture_end(o.graph));
  EXPECT(ends == 0);
  replay(&o);
  replay(&o);
  EXPECT(calls == 2 && ends == 2);
  EXPECT_OK(reprise_graph_reset(o.graph));
  EXPECT_OK(reprise_device_synchronize(o.device));
  wait_for(&o, &ends, 3);
  EXPECT(calls == 2 && ends == 3);
  // One that is refused is destroyed at once.
  EXPECT(reprise_launch_host(NULL, count_call, &calls, count_call) == REPRISE_ERROR_USAGE);
  EXPECT(calls == 3);
  EXPECT(reprise_launch_host(o.stream, NULL, &calls, count_call) == REPRISE_ERROR_USAGE);
  EXPECT(calls == 4);
  destroy_objects(&o);
}
