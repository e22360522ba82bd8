// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <string.h>

#include "tests/c_api/tests.h"

// What all functions have in common: null, structs, texts, errors; devices, streams and memory.

static int says(reprise_status status, const char* parameter) {
  return status == REPRISE_ERROR_USAGE && strstr(reprise_last_error(), parameter) != NULL &&
         strstr(reprise_last_error(), "found null") != NULL;
}

void null_is_refused_with_the_name_of_the_parameter(void) {
  struct objects o = make_objects();
  const int value = 0;
  int flag = 0;
  size_t number = 0;
  void* memory = NULL;
  reprise_stream* stream = NULL;
  const reprise_device* device = NULL;
  EXPECT(says(reprise_device_parse(NULL, &device), "`text`"));
  EXPECT(says(reprise_device_parse("host", NULL), "`device`"));
  EXPECT(says(reprise_device_default(NULL), "`device`"));
  EXPECT(says(reprise_device_synchronize(NULL), "`device`"));
  EXPECT(says(reprise_device_memory(o.device, NULL, &number), "`free_bytes`"));
  EXPECT(says(reprise_device_text(o.device, NULL, 1, NULL), "`buffer`"));
  EXPECT(says(reprise_device_memory_counts(o.device, NULL), "`result`"));
  EXPECT(says(reprise_stream_create(NULL, NULL, &stream), "`device`"));
  EXPECT(says(reprise_stream_create(o.device, NULL, NULL), "`stream`"));
  EXPECT(says(reprise_stream_wrap(NULL, NULL, &stream), "`device`"));
  EXPECT(says(reprise_stream_synchronize(NULL), "`stream`"));
  EXPECT(says(reprise_stream_query(o.stream, NULL), "`completed`"));
  EXPECT(says(reprise_stream_wait(o.stream, NULL), "`other`"));
  EXPECT(says(reprise_stream_is_capturing(NULL, &flag), "`stream`"));
  EXPECT(says(reprise_allocate(1, NULL, &memory), "`stream`"));
  EXPECT(says(reprise_allocate(1, o.stream, NULL), "`memory`"));
  EXPECT(says(reprise_record_stream(NULL, o.stream), "`memory`"));
  EXPECT(says(reprise_launch_host(o.stream, NULL, NULL, NULL), "`function`"));
  EXPECT(says(reprise_graph_create(NULL), "`graph`"));
  EXPECT(says(reprise_graph_capture(o.graph, NULL, NULL, NULL, NULL), "`body`"));
  EXPECT(says(reprise_graph_capture_begin(o.graph, NULL, NULL), "`stream`"));
  EXPECT(says(reprise_graph_capture_begin(NULL, o.stream, NULL), "`graph`"));
  EXPECT(says(reprise_graph_capture_end(NULL), "`graph`"));
  EXPECT(says(reprise_graph_replay(NULL, o.stream), "`graph`"));
  EXPECT(says(reprise_graph_replay(o.graph, NULL), "`stream`"));
  EXPECT(says(reprise_graph_update(o.graph, NULL), "`other`"));
  EXPECT(says(reprise_graph_set_arg(o.graph, NULL, 0, &value, 4), "`node`"));
  EXPECT(says(reprise_graph_set_arg(o.graph, "x", 0, NULL, 4), "`value`"));
  EXPECT(says(reprise_graph_dump_dot(o.graph, NULL), "`path`"));
  EXPECT(says(reprise_graph_report_text(NULL, NULL, 0, NULL), "`graph`"));
  EXPECT(says(reprise_pool_create(NULL), "`pool`"));
  EXPECT(stream == NULL && device == NULL && memory == NULL);
  EXPECT_OK(reprise_free(o.device, NULL));
  reprise_stream_destroy(NULL);
  reprise_graph_destroy(NULL);
  destroy_objects(&o);
}

static int begins(const char* text, const char* with) {
  return strstr(text, with) == text;
}

static int says_first(reprise_status status, const char* beginning) {
  return status != REPRISE_SUCCESS && begins(reprise_last_error(), beginning);
}

static reprise_status no_work(void* user, const reprise_stream* stream) {
  (void)user;
  (void)stream;
  return REPRISE_SUCCESS;
}

static reprise_status synchronizing(void* user, const reprise_stream* stream) {
  (void)user;
  return reprise_stream_synchronize(stream);
}

void texts_begin_with_the_function_of_this_interface(void) {
  struct objects o = make_objects();
  void* memory = NULL;
  reprise_capture_options options = {0};
  options.struct_size = sizeof options;
  EXPECT(says_first(reprise_graph_replay(o.graph, o.stream),
                    "reprise_graph_replay: CUDAGraph::replay needs a graph in state"));
  EXPECT(says_first(reprise_graph_capture_end(o.graph), "reprise_graph_capture_end: CUDAGraph::capture_end needs"));
  options.mode = 7;
  EXPECT(says_first(reprise_graph_capture(o.graph, NULL, &options, no_work, NULL), "reprise_graph_capture: "));
  EXPECT(strstr(reprise_last_error(), "GraphOptions::capture_error_mode") != NULL);
  EXPECT(says_first(reprise_graph_capture(o.graph, NULL, NULL, no_work, NULL), "reprise_graph_capture: "));
  EXPECT(strstr(reprise_last_error(), "GraphOptions::allow_empty") != NULL);
  EXPECT(says_first(reprise_graph_capture(o.graph, NULL, NULL, synchronizing, NULL),
                    "reprise_stream_synchronize: StreamRef::synchronize: cuStreamSynchronize returned"));
  EXPECT_OK(reprise_allocate(8, o.stream, &memory));
  EXPECT_OK(reprise_free(o.device, memory));
  EXPECT(says_first(reprise_free(o.device, memory), "reprise_free: "));
  destroy_objects(&o);
}

// What a struct of a later version could be.
struct later_options {
  reprise_stream_options known;
  int added;
};

void structs_of_other_versions_are_read_as_far_as_they_go(void) {
  struct objects o = make_objects();
  struct later_options later;
  reprise_stream* stream = NULL;
  reprise_memory_counts counts;
  memset(&later, 0, sizeof later);
  memset(&counts, 0xFF, sizeof counts);
  later.known.struct_size = sizeof later;
  EXPECT_OK(reprise_stream_create(o.device, &later.known, &stream));
  reprise_stream_destroy(stream);
  later.added = 1;
  EXPECT(reprise_stream_create(o.device, &later.known, &stream) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "members of a newer version") != NULL);
  {
    reprise_capture_options unset = {0};
    unset.struct_size = sizeof unset;
    unset.reserved = 1;
    EXPECT(reprise_graph_capture_begin(o.graph, o.stream, &unset) == REPRISE_ERROR_USAGE);
    EXPECT(strstr(reprise_last_error(), "reserved expected 0") != NULL);
  }
  later.known.struct_size = 0;
  EXPECT(reprise_stream_create(o.device, &later.known, &stream) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "struct_size") != NULL);
  // An older one: what lies behind it is neither read nor written.
  later.known.struct_size = sizeof(size_t);
  EXPECT_OK(reprise_stream_create(o.device, &later.known, &stream));
  reprise_stream_destroy(stream);
  counts.struct_size = sizeof(size_t) + sizeof(uint64_t);
  EXPECT_OK(reprise_device_memory_counts(o.device, &counts));
  EXPECT(counts.struct_size == sizeof(size_t) + sizeof(uint64_t));
  EXPECT(counts.reserved_bytes != UINT64_MAX && counts.allocated_bytes == UINT64_MAX);
  counts.struct_size = 0;
  EXPECT(reprise_device_memory_counts(o.device, &counts) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "struct_size") != NULL);
  destroy_objects(&o);
}

void a_text_is_cut_to_the_size_of_the_buffer(void) {
  struct objects o = make_objects();
  char whole[64], part[4] = "xyz";
  size_t length = 0;
  EXPECT_OK(reprise_device_text(o.device, whole, sizeof whole, NULL));
  EXPECT_OK(reprise_device_text(o.device, part, sizeof part, &length));
  EXPECT(length == strlen(whole) && strncmp(whole, part, 3) == 0 && part[3] == '\0');
  length = 0;
  EXPECT_OK(reprise_device_text(o.device, NULL, 0, &length));
  EXPECT(length == strlen(whole));
  destroy_objects(&o);
}

void devices_are_found_by_their_texts(void) {
  const reprise_device* first = NULL;
  const reprise_device* second = NULL;
  char text[16];
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_OK(reprise_device_parse("host", &first));
  EXPECT_OK(reprise_device_parse("host:0", &second));
  EXPECT(first == second);
  EXPECT_OK(reprise_device_text(first, text, sizeof text, NULL));
  EXPECT(strcmp(text, "host:0") == 0);
  EXPECT_OK(reprise_device_memory(first, &free_bytes, &total_bytes));
  EXPECT(free_bytes > 0 && free_bytes <= total_bytes);
  EXPECT(reprise_device_parse("moon", &second) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "reprise_device_parse: ") == reprise_last_error());
  EXPECT(second == first);
}

void a_view_of_a_stream_is_that_stream(void) {
  struct objects o = make_objects();
  reprise_stream *view = NULL, *legacy = NULL;
  const reprise_device* device = NULL;
  int completed = 0;
  EXPECT_OK(reprise_stream_wrap(o.device, reprise_stream_native(o.stream), &view));
  EXPECT(reprise_stream_native(view) == reprise_stream_native(o.stream));
  EXPECT_OK(reprise_stream_device(view, &device));
  EXPECT(device == o.device);
  EXPECT_OK(reprise_stream_synchronize(view));
  EXPECT_OK(reprise_stream_query(view, &completed));
  EXPECT(completed == 1);
  EXPECT_OK(reprise_stream_wrap(o.device, NULL, &legacy));
  EXPECT(reprise_stream_native(legacy) == NULL);
  EXPECT(reprise_graph_capture_begin(o.graph, legacy, NULL) == REPRISE_ERROR_USAGE);
  reprise_stream_destroy(legacy);
  reprise_stream_destroy(view);
  destroy_objects(&o);
}

static void* fail_on_another_thread(void* empty_before) {
  const reprise_device* device = NULL;
  *(int*)empty_before = strcmp(reprise_last_error(), "") == 0;
  EXPECT(reprise_device_parse("another", &device) == REPRISE_ERROR_USAGE);
  EXPECT(strstr(reprise_last_error(), "another") != NULL);
  return NULL;
}

void the_last_error_belongs_to_its_thread(void) {
  const reprise_device* device = NULL;
  pthread_t thread;
  int empty_before = 0;
  EXPECT(reprise_device_parse("this", &device) == REPRISE_ERROR_USAGE);
  EXPECT(pthread_create(&thread, NULL, fail_on_another_thread, &empty_before) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(empty_before == 1);
  EXPECT(strstr(reprise_last_error(), "\"this\"") != NULL);
  EXPECT(reprise_last_error_code() == 0);
  EXPECT_OK(reprise_device_parse("host", &device));
  EXPECT(strstr(reprise_last_error(), "\"this\"") != NULL);
}

void memory_comes_from_the_allocator_and_returns_to_it(void) {
  struct objects o = make_objects();
  reprise_memory_counts before, with, after;
  void *memory = NULL, *none = &memory;
  before.struct_size = with.struct_size = after.struct_size = sizeof before;
  EXPECT_OK(reprise_device_memory_counts(o.device, &before));
  EXPECT_OK(reprise_allocate(1000, o.stream, &memory));
  EXPECT(memory != NULL && (uintptr_t)memory % 512 == 0);
  EXPECT_OK(reprise_device_memory_counts(o.device, &with));
  EXPECT(with.allocations == before.allocations + 1 && with.allocated_bytes == before.allocated_bytes + 1024);
  EXPECT_OK(reprise_record_stream(memory, o.stream));
  EXPECT_OK(reprise_free(o.device, memory));
  EXPECT(reprise_free(o.device, memory) == REPRISE_ERROR_USAGE);
  EXPECT_OK(reprise_empty_cache(o.device));
  EXPECT_OK(reprise_device_memory_counts(o.device, &after));
  EXPECT(after.allocations == before.allocations && after.reserved_bytes <= before.reserved_bytes);
  EXPECT_OK(reprise_allocate(0, o.stream, &none));
  EXPECT(none == NULL);
  EXPECT(reprise_allocate((size_t)1 << 60, o.stream, &memory) == REPRISE_ERROR_OUT_OF_MEMORY);
  EXPECT(reprise_last_error_code() == 2);
  destroy_objects(&o);
}

void each_status_has_a_name(void) {
  int i;
  EXPECT(strcmp(reprise_status_name(REPRISE_SUCCESS), "REPRISE_SUCCESS") == 0);
  for (i = 1; i <= REPRISE_ERROR_OTHER; ++i)
    EXPECT(strstr(reprise_status_name((reprise_status)i), "REPRISE_ERROR_") != NULL);
  EXPECT(strcmp(reprise_status_name((reprise_status)(REPRISE_ERROR_OTHER + 1)), "unknown") == 0);
  EXPECT(strcmp(reprise_version(), REPRISE_VERSION) == 0);
}
