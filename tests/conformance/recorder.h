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

/// Who makes the call.
enum class Caller {
  same,                    ///< the thread that captures
  other,                   ///< another thread
  other_capturing,         ///< another thread, which captures a stream of its own in the same mode
  other_device,            ///< another thread, on another device
  same_with_global,        ///< the thread that captures, with a second capture of its own underway, in mode global
  same_with_thread_local,  ///< ... in mode thread_local
  same_with_relaxed,       ///< ... in mode relaxed
};

/// The stream that captures.
enum class StreamKind {
  blocking,
  non_blocking,
  green,  ///< made in a green context: it has a part of the device's multiprocessors; such a one does not block
};

/// What is underway when the call is made.
struct Situation {
  CaptureErrorMode mode = CaptureErrorMode::global;
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
struct State {
  explicit State(Backend& of) : backend(of) {}
  Backend& backend;
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
  GraphExecHandle exec = nullptr;  ///< of `graph`
  GraphExecHandle doomed_exec = nullptr;
  UserObjectHandle object = nullptr;
  UserObjectHandle held = nullptr;  ///< by `graph` as well
  unsigned char* device = nullptr;  ///< 4096 bytes
  unsigned char* pinned = nullptr;  ///< 4096 bytes
  void* doomed_memory = nullptr;
  void* doomed_pinned = nullptr;
  void* doomed_async = nullptr;  ///< allocated in the order of `nb`; null if the device cannot
  unsigned char pageable[64] = {};
  std::shared_ptr<void> further;  ///< what RecordedCall::prepare made
};

/// One call with its arguments. What it makes it gives back, or puts into the state.
struct RecordedCall {
  std::string name;  ///< of the call, and what it works on; words with one space between them, no comma
  std::function<Result(State&)> make;
  std::function<void(State&)> prepare = {};    ///< before the capture begins: makes what only this call needs
  std::function<void(State&)> give_back = {};  ///< after its end: gives that back. Neither may be there
};

/// Every call of the backend interface that is recorded, and steps of forks and joins.
const std::vector<RecordedCall>& recorded_calls();

/// One or more of each class of them: these are recorded with two captures on one thread, and in green contexts.
const std::vector<RecordedCall>& representative_calls();

/// Calls of CUDA that the interface does not have, of the driver (cu...) and of the runtime (cuda...); none where nvcc
/// does not compile this. The name is CUDA's, then what it works on: `cuMemsetD16Async s`, `cudaEventQuery in`.
const std::vector<RecordedCall>& further_calls();

/// Gives back what a call made, in relaxed mode, so that nothing but the call itself is recorded.
template <class R, class F>
R then(R result, State& state, F&& give_back) {
  if (result != R{}) return result;
  CaptureErrorMode mode = CaptureErrorMode::relaxed;
  (void)state.backend.thread_exchange_capture_mode(&mode);
  give_back();
  (void)state.backend.thread_exchange_capture_mode(&mode);
  return result;
}

/// What cudaGetLastError gives on this thread, and forgets; 0 on a device that is not CUDA's.
int last_error(const Backend& backend);

/// A stream of a green context; not_supported where nvcc does not compile this.
Result create_green_stream(Backend& backend, StreamHandle* stream);

/// The situations that a call of the interface, one that stands for its class, and a further call are recorded in.
/// \param two_devices without them, those of Caller::other_device are left out.
std::vector<Situation> all_situations(bool two_devices);
std::vector<Situation> situations_of_two_captures();
std::vector<Situation> situations_of_green_contexts();

/// Makes a call in one situation.
/// \param other the second device, for Caller::other_device; else it may be null.
/// \throws std::runtime_error if the state cannot be made or given back.
Row record(Backend& backend, Backend* other, const RecordedCall& call, const Situation& situation);

/// The same in several situations.
std::vector<Row> record(Backend& backend, Backend* other, const RecordedCall& call,
                        const std::vector<Situation>& situations);

}  // namespace reprise::backend::test
