// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "backend/backend.h"

// The recorder: makes every call of the backend interface while a stream captures, each in a state of its own, and
// writes down what came of it. On a GPU that is a measurement of what CUDA allows; any other device must give the same.

namespace reprise::backend::test {

/// Who makes the call.
enum class Caller {
  same,             ///< the thread that captures
  other,            ///< another thread
  other_capturing,  ///< another thread, which captures a stream of its own in the same mode
  other_device,     ///< another thread, on another device
};

/// What is underway when the call is made.
struct Situation {
  CaptureErrorMode mode = CaptureErrorMode::global;
  Caller caller = Caller::same;
  StreamFlags stream = StreamFlags::non_blocking;  ///< of the stream that captures
  bool invalidated = false;                        ///< the capture was broken before
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

  std::string where() const;                                   ///< call and situation, for messages
  friend bool operator==(const Row&, const Row&);              ///< all of it?
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
};

/// One call with its arguments. What it makes it gives back, or puts into the state.
struct RecordedCall {
  std::string name;  ///< of the backend's call, and what it works on
  std::function<Result(State&)> make;
};

/// Every call that is recorded.
const std::vector<RecordedCall>& recorded_calls();

/// Makes a call in one situation.
/// \param other the second device, for Caller::other_device; else it may be null.
/// \throws std::runtime_error if the state cannot be made or given back.
Row record(Backend& backend, Backend* other, const RecordedCall& call, const Situation& situation);

/// The same in all situations; without a second device, those of Caller::other_device are left out.
std::vector<Row> record(Backend& backend, Backend* other, const RecordedCall& call);

}  // namespace reprise::backend::test
