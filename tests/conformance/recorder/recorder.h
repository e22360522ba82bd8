// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

// The recorder: makes every call of the backend interface, and many further ones of CUDA, while a stream captures, each
// in a state of its own, and writes down what came of it. On a GPU that is a measurement of what CUDA allows; any other
// device must give the same.

namespace reprise::backend::test {

/// A host function.
inline void do_nothing(void*) {}

/// The thread that makes the call.
enum class Caller {
  same,                     ///< the thread that captures
  other,                    ///< another thread
  other_capturing,          ///< another thread, which captures a stream of its own in the same mode
  other_device,             ///< another thread, on another device, with streams and events of that one
  same_with_global,         ///< the thread that captures, with a second capture of its own underway, in mode global
  same_with_thread_local,   ///< ... in mode thread_local
  same_with_relaxed,        ///< ... in mode relaxed
  other_with_global,        ///< another thread, which captures a stream of its own in mode global
  other_with_thread_local,  ///< ... in mode thread_local
  other_with_relaxed,       ///< ... in mode relaxed
  same_exchanged_to_thread_local,   ///< the thread that captures, when it has exchanged its own mode to thread_local
  same_exchanged_to_relaxed,        ///< ... to relaxed
  other_exchanged_to_thread_local,  ///< another thread, when it has exchanged its own mode to thread_local
  other_exchanged_to_relaxed,       ///< ... to relaxed
  other_device_on_ours,  ///< another thread, on another device, with streams and events of the one that captures
};

/// The stream that captures.
enum class StreamKind {
  blocking,
  non_blocking,
  green,  ///< made in a green context: it has a part of the device's multiprocessors; such a one does not block
};

/// What is underway when the call is made.
struct Situation {
  CaptureMode mode = CaptureMode::global;
  Caller caller = Caller::same;
  StreamKind stream = StreamKind::non_blocking;
  bool invalidated = false;  ///< the capture was broken before

  friend bool operator==(const Situation&, const Situation&) = default;
};

/// What came of a call.
struct Row {
  std::string call;
  Situation situation;
  int result = 0;        ///< of the call
  int after = 0;         ///< CaptureStatus of the capturing stream then
  int end = 0;           ///< of the capture's end
  int caller_after = 0;  ///< the same of the caller's own capture, where it has one
  int caller_end = 0;
  int last = 0;  ///< what cudaGetLastError gave on the caller's thread right after the call

  std::string where() const;  ///< call and situation, for messages
  friend bool operator==(const Row&, const Row&) = default;
  friend std::ostream& operator<<(std::ostream&, const Row&);  ///< as a line of the CSV, without its end
};

/// The columns of a Row.
std::string csv_header();
/// \throws std::runtime_error if the text is no row.
Row parse_row(const std::string& line);

/// What the calls work on, made before the capture begins. Null where it was given away or never made.
struct Handles {
  StreamHandle s = nullptr;   ///< the one that captures
  StreamHandle nb = nullptr;  ///< another one, non-blocking
  StreamHandle b = nullptr;   ///< another one, blocking
  StreamHandle doomed_stream = nullptr;
  EventHandle in = nullptr;     ///< recorded in the capture
  EventHandle out = nullptr;    ///< recorded before it
  EventHandle never = nullptr;  ///< not recorded
  EventHandle over = nullptr;   ///< recorded in a capture that was ended before this one began
  EventHandle doomed_event = nullptr;
  GraphHandle graph = nullptr;  ///< of two memset nodes, the second after the first
  GraphNodeHandle first = nullptr, second = nullptr;
  GraphHandle doomed_graph = nullptr;
  GraphHandle clone = nullptr;     ///< of `graph`, of which only RecordedCall::prepare makes one
  GraphExecHandle exec = nullptr;  ///< of `graph`
  GraphExecHandle doomed_exec = nullptr;
  UserObjectHandle object = nullptr;
  UserObjectHandle held = nullptr;  ///< by `graph` as well
  unsigned char* device = nullptr;  ///< 4096 bytes
  unsigned char* pinned = nullptr;  ///< 4096 bytes
  void* doomed_memory = nullptr;
  void* doomed_pinned = nullptr;
  void* doomed_async = nullptr;       ///< allocated in the order of `nb`; null if the device cannot
  unsigned char* pageable = nullptr;  ///< 64 bytes
  std::shared_ptr<void> further;      ///< what RecordedCall::prepare made
};

/// These, and the device that calls are made on.
struct State : Handles {
  explicit State(Backend& of) : backend(of) {}
  Backend& backend;
};

/// One call with its arguments. It releases what it makes, or puts it into the state.
struct RecordedCall {
  std::string name;  ///< of the call, and what it works on; words with one space between them, no comma
  std::function<Result(State&)> make;
  std::function<void(State&)> prepare = {};  ///< before the capture begins: makes what only this call needs
  std::function<void(State&)> release = {};  ///< after its end: releases that. Either may be empty
};

/// Every call of the backend interface that is recorded, and steps of forks and joins.
const std::vector<RecordedCall>& recorded_calls();

/// One or more of each class of them: these are recorded by every Caller, and in green contexts.
const std::vector<RecordedCall>& representative_calls();

/// The calls among them that take a stream or an event, not the legacy default stream: another device gets them, too.
const std::vector<RecordedCall>& calls_on_handles();

/// Calls on child graphs, allocation nodes, conditional nodes, and graphs that have them.
const std::vector<RecordedCall>& node_calls();

/// Calls of CUDA that the interface does not have, of the driver (cu...) and of the runtime (cuda...); none where nvcc
/// does not compile this. The name is CUDA's, then what it works on: `cuMemsetD16Async s`, `cudaEventQuery in`.
const std::vector<RecordedCall>& further_calls();

inline bool has_failed(const Result& result) {
  return result.failed();
}
inline bool has_failed(int code) {
  return code != 0;
}

/// Releases what a call made, in relaxed mode, so that nothing but the call itself is recorded.
template <class R, class F>
R then(R result, State& state, F&& release) {
  if (has_failed(result)) return result;
  CaptureMode mode = CaptureMode::relaxed;
  (void)state.backend.thread_exchange_capture_mode(&mode);
  release();
  (void)state.backend.thread_exchange_capture_mode(&mode);
  return result;
}

/// What cudaGetLastError gives on this thread, and forgets; 0 on a device that is not CUDA's.
int last_error(const Backend& backend);

/// A stream of a green context; not_supported where nvcc does not compile this.
Result create_green_stream(Backend& backend, StreamHandle* stream);

/// Calls, and the situations that each of them is recorded in.
struct Part {
  const std::vector<RecordedCall>* calls;
  std::vector<Situation> situations;
};

/// What is recorded of the interface, and what beside it; a call's situations may be in several parts.
/// \param two_devices without them, what needs another device is left out.
std::vector<Part> parts_of_the_interface(bool two_devices);
std::vector<Part> parts_beside_it(bool two_devices);
/// What is recorded of node_calls().
std::vector<Part> parts_on_nodes();

/// Makes a call in one situation.
/// \param other the second device, for the callers that are on one; else it may be null.
/// \throws std::runtime_error if the state cannot be made or released.
Row record(Backend& backend, Backend* other, const RecordedCall& call, const Situation& situation);

/// The same in several situations.
std::vector<Row> record(Backend& backend, Backend* other, const RecordedCall& call,
                        const std::vector<Situation>& situations);

}  // namespace reprise::backend::test
