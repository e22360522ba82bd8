// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "reprise/detail/export.h"
#include "reprise/version.h"

/// \file
/// The interface for C (C99), C++17, and languages that call C: devices, streams, memory, captures, graphs, pools,
/// reports. docs/c-api.md has a whole program.
///
/// *Status.* Each function that can fail returns a reprise_status. One that failed has changed nothing unless it says
/// otherwise, has written no result, and has left a text for the calling thread, reprise_last_error(). No exception
/// leaves a function.
///
/// *Null.* Pointers must not be null unless the parameter says that null is allowed: REPRISE_ERROR_USAGE. Functions
/// that destroy or free ignore null.
///
/// *Structs* begin with `struct_size`, which the caller sets to the size of the struct as it was compiled; all other
/// members may be zero, which is the default of each option. Later versions append members. Of a struct from an older
/// header the members that it lacks count as zero; a struct from a newer header is refused if it sets a member that
/// this version of the library does not have.
///
/// *Texts* are UTF-8 or the bytes of the system. A function that returns one writes at most `size` bytes to `buffer`,
/// a null at their end included, and the length of the whole text without it to `length`, as `snprintf` does.
/// `buffer` may be null if `size` is 0, `length` may be null.
///
/// *Ownership.* What a function whose name ends in `_create` or `_wrap` wrote is owned by the caller, and ended by the
/// function with `_destroy`. Nothing else is owned by the caller, except for memory of reprise_allocate(). Parameters
/// are not kept beyond the call unless said otherwise; texts are copied.
///
/// *Threads.* Every function may be called by any thread. One reprise_graph is used by one thread at a time, except
/// that reprise_graph_replay() may be called by several at once. Captures in other modes than REPRISE_CAPTURE_RELAXED
/// end on the thread that began them. Two threads must not destroy and use one object at once. Functions that are
/// passed as callbacks must not throw exceptions through C code, and must not leave by `longjmp`.

#ifdef __cplusplus
extern "C" {
#endif

/// Result of a function. Later versions may add values.
typedef enum reprise_status {
  REPRISE_SUCCESS = 0,
  REPRISE_ERROR_USAGE = 1,          ///< wrong use: the text says what was expected, what was found, what to do
  REPRISE_ERROR_BACKEND = 2,        ///< a call of the device runtime failed: reprise_last_error_code() is its code
  REPRISE_ERROR_CAPTURE = 3,        ///< a capture failed; the graph is empty, and has a report
  REPRISE_ERROR_EMPTY_CAPTURE = 4,  ///< nothing was captured; the graph is empty
  REPRISE_ERROR_OUT_OF_MEMORY = 5,  ///< the device has no memory left
  REPRISE_ERROR_OUT_OF_HOST_MEMORY = 6,
  REPRISE_ERROR_GRAPH_UPDATE = 7,  ///< CUDA cannot update the graph to the other one
  REPRISE_ERROR_DEAD_INPUT = 8,    ///< memory that the graph uses was freed; nothing was launched
  REPRISE_ERROR_CALLBACK = 9,      ///< for functions that are passed to the library: they failed for a reason of theirs
  REPRISE_ERROR_OTHER = 10         ///< an error without a value of its own; the text says which
} reprise_status;

/// The name of a status, for example `REPRISE_ERROR_USAGE`; `unknown` for a number without one. Static.
REPRISE_EXPORT const char* reprise_status_name(reprise_status status);

/// The text of the last error of the calling thread; empty before the first one. Success does not change it. Valid
/// until the next function fails on this thread, or the thread ends.
REPRISE_EXPORT const char* reprise_last_error(void);

/// CUDA's code of the last error of the calling thread (`cudaError_t`), 0 if it has none.
REPRISE_EXPORT int reprise_last_error_code(void);

/// The version of the library that is linked, as REPRISE_VERSION is that of the header. Static.
REPRISE_EXPORT const char* reprise_version(void);

// --- Devices ---------------------------------------------------------------------------------------------------------

/// A device. Lives until the process ends; pointers to one device are equal.
typedef struct reprise_device reprise_device;

/// Finds the device that a text names: `host`, `host:1`, `cuda`, `cuda:0`.
REPRISE_EXPORT reprise_status reprise_device_parse(const char* text, const reprise_device** device);

/// Finds the device of `REPRISE_DEVICE`, else the first CUDA device, else the first host device.
REPRISE_EXPORT reprise_status reprise_device_default(const reprise_device** device);

/// The text that reprise_device_parse() takes.
REPRISE_EXPORT reprise_status reprise_device_text(const reprise_device* device, char* buffer, size_t size,
                                                  size_t* length);

/// Blocks until all work of the device has completed. Breaks a capture that is underway on it: code 900.
REPRISE_EXPORT reprise_status reprise_device_synchronize(const reprise_device* device);

/// Free and total memory of the device in bytes. Allowed in a capture.
REPRISE_EXPORT reprise_status reprise_device_memory(const reprise_device* device, size_t* free_bytes,
                                                    size_t* total_bytes);

// --- Streams ---------------------------------------------------------------------------------------------------------

/// A stream: one of its own, or a view of one that other code owns.
typedef struct reprise_stream reprise_stream;

/// Properties of a new stream.
typedef struct reprise_stream_options {
  size_t struct_size;  ///< `sizeof(reprise_stream_options)`
  int blocking;        ///< not 0: the stream and the legacy default stream wait for each other
  int priority;        ///< lower runs first; clamped to the range of the device
} reprise_stream_options;

/// Makes a stream. `options` may be null: the defaults.
REPRISE_EXPORT reprise_status reprise_stream_create(const reprise_device* device, const reprise_stream_options* options,
                                                    reprise_stream** stream);

/// Makes a view of a stream that other code owns and that must exist as long as the view is used: a `cudaStream_t` of
/// this device; null is the legacy default stream of the device.
REPRISE_EXPORT reprise_status reprise_stream_wrap(const reprise_device* device, void* native, reprise_stream** stream);

/// Destroys a stream or a view. Does not wait: submitted work still runs. Null is ignored.
REPRISE_EXPORT void reprise_stream_destroy(reprise_stream* stream);

/// The `cudaStream_t`, for launches of own kernels; null is the legacy default stream. `stream` must not be null.
REPRISE_EXPORT void* reprise_stream_native(const reprise_stream* stream);

/// Finds the device of the stream.
REPRISE_EXPORT reprise_status reprise_stream_device(const reprise_stream* stream, const reprise_device** device);

/// Blocks until the work of the stream has completed. Breaks a capture of it: code 900.
REPRISE_EXPORT reprise_status reprise_stream_synchronize(const reprise_stream* stream);

/// Sets `completed` to 1 if the work of the stream has completed, else 0. Does not block. Breaks a capture: code 900.
REPRISE_EXPORT reprise_status reprise_stream_query(const reprise_stream* stream, int* completed);

/// Makes later work of the stream wait for what was submitted to `other`. In a capture: fork and join.
REPRISE_EXPORT reprise_status reprise_stream_wait(const reprise_stream* stream, const reprise_stream* other);

/// Sets `capturing` to 1 if the stream is being captured, also if that is broken, else 0. Never breaks a capture.
REPRISE_EXPORT reprise_status reprise_stream_is_capturing(const reprise_stream* stream, int* capturing);

// --- Memory and work -------------------------------------------------------------------------------------------------

/// Allocates memory of the stream's device for work on the stream, aligned to 512 bytes; null for 0 bytes. In a capture
/// that the stream takes part in the memory belongs to the pool of the graph.
REPRISE_EXPORT reprise_status reprise_allocate(size_t bytes, const reprise_stream* stream, void** memory);

/// Frees memory of reprise_allocate(). Never waits. Null is ignored.
REPRISE_EXPORT reprise_status reprise_free(const reprise_device* device, void* memory);

/// Declares that work of a stream other than that of its allocation uses the memory: it is not reused before that.
REPRISE_EXPORT reprise_status reprise_record_stream(void* memory, const reprise_stream* stream);

/// Releases cached memory that is free, except for what graphs need.
REPRISE_EXPORT reprise_status reprise_empty_cache(const reprise_device* device);

/// Copies bytes in the order of a stream, between any memory of its device and of the host. In a capture this is a
/// node: each replay reads and writes the same addresses again.
REPRISE_EXPORT reprise_status reprise_copy(void* destination, const void* source, size_t bytes,
                                           const reprise_stream* stream);

/// Sets each of `bytes` bytes, in the order of a stream. In a capture this is a node.
REPRISE_EXPORT reprise_status reprise_fill(void* memory, unsigned char value, size_t bytes,
                                           const reprise_stream* stream);

/// A function of the host that work calls.
typedef void (*reprise_host_function)(void* user);

/// Calls a function on the host, in the order of a stream: after the work before, and before the work behind it. In a
/// capture this is a node: each replay calls it again.
///
/// `function` runs on a thread of the device runtime, and must not call this library or CUDA.
/// \param stream the stream.
/// \param function is called with `user`.
/// \param user must be valid until `destroy` is called.
/// \param destroy null, or called once with `user` when the function is not called any more: after its call; in a
///        capture, after the end of the graph and of its replays. If this fails: before it returns, or at the
///        end of the capture. On any thread, with the same limits.
REPRISE_EXPORT reprise_status reprise_launch_host(const reprise_stream* stream, reprise_host_function function,
                                                  void* user, reprise_host_function destroy);

// --- Graphs ----------------------------------------------------------------------------------------------------------

/// A graph: empty, capturing, or captured. One thread at a time, except for reprise_graph_replay().
typedef struct reprise_graph reprise_graph;

/// The name of a memory pool that captures can share; zeros name none. A value: nothing to destroy.
typedef struct reprise_pool {
  uint64_t first;
  uint64_t second;
} reprise_pool;

/// Calls that are refused during a capture; the numbers are CUDA's.
typedef enum reprise_capture_mode {
  REPRISE_CAPTURE_GLOBAL = 0,  ///< potentially unsafe calls are refused on every thread
  REPRISE_CAPTURE_THREAD = 1,  ///< on the capturing thread only
  REPRISE_CAPTURE_RELAXED = 2  ///< on none
} reprise_capture_mode;

/// Options of a capture.
typedef struct reprise_capture_options {
  size_t struct_size;  ///< `sizeof(reprise_capture_options)`
  reprise_pool pool;   ///< the pool for memory of the capture; zeros: one of its own
  int mode;            ///< a reprise_capture_mode
  int warmup;          ///< with reprise_graph_capture() only: how many times the body runs before the capture
  const char* name;    ///< names the graph in errors and reports; null: no name
  int full_report;     ///< not 0: all calls of the process are recorded, with their stacks
  int keep_template;   ///< not 0: reprise_graph_instantiate() or the first replay instantiates
  int allow_empty;     ///< not 0: a capture without work is no error
  int check_inputs;    ///< not 0: a replay is refused if memory that the graph uses was freed
  int retain_inputs;   ///< not 0: memory of reprise_allocate() that the graph uses lives as long as the graph
  int reserved;        ///< 0
} reprise_capture_options;

/// The work of a capture: submits it to `stream`, which is valid during the call.
/// \returns another value than REPRISE_SUCCESS to abandon the capture: REPRISE_ERROR_CALLBACK, or what a function of
///          this library returned.
typedef reprise_status (*reprise_capture_body)(void* user, const reprise_stream* stream);

/// Makes an empty graph.
REPRISE_EXPORT reprise_status reprise_graph_create(reprise_graph** graph);

/// Destroys a graph, and abandons a capture of it that is underway. Allowed while replays run: what they need is
/// released after them. Null is ignored. Not from the body of its own capture.
REPRISE_EXPORT void reprise_graph_destroy(reprise_graph* graph);

/// Captures what `body` submits into an empty graph. Before that it waits for the device, unless another capture is
/// underway.
/// \param graph an empty graph.
/// \param stream the stream to capture on; null for an internal one of the default device.
/// \param options null for the defaults.
/// \param body called on the calling thread, once, after reprise_capture_options::warmup runs before the capture.
/// \param user passed to `body`.
/// \returns what `body` returned if that is no success, with the text that it left for that value.
REPRISE_EXPORT reprise_status reprise_graph_capture(reprise_graph* graph, const reprise_stream* stream,
                                                    const reprise_capture_options* options, reprise_capture_body body,
                                                    void* user);

/// Begins to capture the stream, which must be neither the legacy default stream nor capturing. It must exist until the
/// capture is over. `options` may be null: the defaults.
REPRISE_EXPORT reprise_status reprise_graph_capture_begin(reprise_graph* graph, const reprise_stream* stream,
                                                          const reprise_capture_options* options);

/// Ends the capture. After REPRISE_ERROR_CAPTURE, REPRISE_ERROR_EMPTY_CAPTURE and REPRISE_ERROR_BACKEND the graph is
/// empty and can capture again; after REPRISE_ERROR_USAGE for another thread the capture continues.
REPRISE_EXPORT reprise_status reprise_graph_capture_end(reprise_graph* graph);

/// Ends a capture and discards its nodes; does nothing if none is underway. Any thread.
REPRISE_EXPORT reprise_status reprise_graph_capture_abandon(reprise_graph* graph);

/// Makes the executable anew; with reprise_capture_options::keep_template only.
REPRISE_EXPORT reprise_status reprise_graph_instantiate(reprise_graph* graph);

/// Moves the executable to the device ahead of the first replay.
REPRISE_EXPORT reprise_status reprise_graph_upload(reprise_graph* graph, const reprise_stream* stream);

/// Launches the graph on a stream. Does not wait. Several threads may replay one graph at once.
REPRISE_EXPORT reprise_status reprise_graph_replay(reprise_graph* graph, const reprise_stream* stream);

/// Updates the graph to the work of another one with the same nodes and dependencies, which stays as it is.
REPRISE_EXPORT reprise_status reprise_graph_update(reprise_graph* graph, const reprise_graph* other);

/// Empties the graph. Allowed while replays run; refused while it captures.
REPRISE_EXPORT reprise_status reprise_graph_reset(reprise_graph* graph);

/// The number of nodes.
REPRISE_EXPORT reprise_status reprise_graph_node_count(const reprise_graph* graph, size_t* count);

/// A node in words, such as "kernel Scale (node 3)". `index` counts from 0.
REPRISE_EXPORT reprise_status reprise_graph_node_text(const reprise_graph* graph, size_t index, char* buffer,
                                                      size_t size, size_t* length);

/// Changes an argument of a kernel for later replays.
/// \param graph the graph.
/// \param node the name of the kernel, which one node alone has; without namespaces and parameters, if it is clear.
/// \param index of the argument, from 0.
/// \param value copied.
/// \param bytes the size of the value, which must be that of the parameter.
REPRISE_EXPORT reprise_status reprise_graph_set_arg(reprise_graph* graph, const char* node, size_t index,
                                                    const void* value, size_t bytes);

/// Writes the graph as a DOT file, for Graphviz.
REPRISE_EXPORT reprise_status reprise_graph_dump_dot(const reprise_graph* graph, const char* path);

/// The report of the last capture if it failed or left something out, in lines; else an empty text. Kept until the next
/// capture of this graph.
REPRISE_EXPORT reprise_status reprise_graph_report_text(const reprise_graph* graph, char* buffer, size_t size,
                                                        size_t* length);

// --- Pools, and the memory of graphs ---------------------------------------------------------------------------------

/// Names a new pool. Captures that share it reuse the memory that earlier ones freed, so that their graphs must be
/// replayed in the order of the captures, one after another.
REPRISE_EXPORT reprise_status reprise_pool_create(reprise_pool* pool);

/// The pool of a graph that is captured or capturing, for sharing it with later captures.
REPRISE_EXPORT reprise_status reprise_graph_pool(const reprise_graph* graph, reprise_pool* pool);

/// Counts of a pool, or of all memory of the allocator of a device.
typedef struct reprise_memory_counts {
  size_t struct_size;             ///< `sizeof(reprise_memory_counts)`
  uint64_t reserved_bytes;        ///< taken from the driver
  uint64_t allocated_bytes;       ///< of that, in use
  uint64_t peak_reserved_bytes;   ///< the highest value so far
  uint64_t peak_allocated_bytes;  ///< the highest value so far
  uint64_t segments;              ///< allocations from the driver
  uint64_t allocations;           ///< in use
} reprise_memory_counts;

/// Counts of all pools of a device together. `struct_size` must be set.
REPRISE_EXPORT reprise_status reprise_device_memory_counts(const reprise_device* device, reprise_memory_counts* counts);

/// Counts of one pool; all zero if it has no memory on the device. Zeros name the common pool.
REPRISE_EXPORT reprise_status reprise_pool_memory_counts(const reprise_device* device, reprise_pool pool,
                                                         reprise_memory_counts* counts);

/// The memory that a graph takes.
typedef struct reprise_graph_memory {
  size_t struct_size;              ///< `sizeof(reprise_graph_memory)`
  uint64_t nodes;                  ///< as captured, those of child graphs included
  uint64_t pool_reserved_bytes;    ///< of its pool
  uint64_t pool_allocated_bytes;   ///< of that, in use
  uint64_t estimate_host_bytes;    ///< what template and executable need on the host: an estimate; 0 on the host device
  uint64_t estimate_device_bytes;  ///< the same on the device
} reprise_graph_memory;

/// The memory of a captured graph. `struct_size` must be set.
REPRISE_EXPORT reprise_status reprise_graph_memory_of(const reprise_graph* graph, reprise_graph_memory* memory);

#ifdef __cplusplus
}
#endif
