// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/monitor/call_monitor.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/monitor/call_traits.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/reported_call.h"

namespace reprise::backend::cuda {
namespace {

// The calls underway on a thread. Without destructor: calls are also reported while threads end.
struct ThreadCalls {
  std::uint64_t generation = 0;
  const char* runtime = nullptr;  // the outermost call of the runtime
  int depth = 0;                  // of calls of the runtime
  bool querying = false;
  bool reported = false;                   // a failure of this call of the runtime is in the findings
  std::optional<FailedCall> failure = {};  // of the driver, within a call of the runtime, which may still succeed
};
thread_local ThreadCalls this_thread;

ThreadCalls& thread_calls(std::uint64_t generation) noexcept {
  if (this_thread.generation != generation) {
    const bool querying = this_thread.querying;
    this_thread = {};
    this_thread.querying = querying;
    this_thread.generation = generation;
  }
  return this_thread;
}

std::uint64_t next_generation() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Marks the calls of this thread as the monitor's own while it lives.
class OwnQuery {
 public:
  OwnQuery() : before_(this_thread.querying) { this_thread.querying = true; }
  ~OwnQuery() { this_thread.querying = before_; }
  OwnQuery(const OwnQuery&) = delete;
  OwnQuery& operator=(const OwnQuery&) = delete;

 private:
  const bool before_;
};

// The handle of the per-thread stream is another stream on each thread: only the capturing thread can query it.
bool can_be_queried(const CaptureFindings& findings) {
  return findings.stream != reinterpret_cast<StreamHandle>(2) || findings.thread == thread_number();
}

bool is_of(const CaptureFindings& findings, std::optional<StreamHandle> stream) {
  return findings.stream == stream && can_be_queried(findings);
}

CaptureFindings::ObservedCall described_call(const char* name, const char* driver_name, ErrorCode result,
                                             std::optional<StreamHandle> stream) {
  CaptureFindings::ObservedCall call = reported_call(name, result, nullptr);
  if (driver_name != nullptr && call.name != driver_name) call.driver_name = driver_name;
  call.stream = stream;
  return call;
}

// Reports a capture that will never be ended as a broken one.
void give_up(CaptureFindings& findings, const char* why) {
  findings.code = ErrorCode::stream_capture_invalidated;
  findings.notes.emplace_back(why);
}

}  // namespace

CallMonitor::CallMonitor(CaptureQueries& driver) : driver_(driver), generation_(next_generation()) {}

bool CallMonitor::querying() noexcept {
  return this_thread.querying;
}

void CallMonitor::runtime_begins(const char* name) noexcept {
  ThreadCalls& thread = thread_calls(generation_.load(std::memory_order_relaxed));
  if (thread.depth++ > 0) return;
  thread.runtime = name;
  thread.reported = false;
  thread.failure = {};
}

void CallMonitor::runtime_ends(const char* name, ErrorCode result) {
  ThreadCalls& thread = thread_calls(generation_.load(std::memory_order_relaxed));
  // The first reported call may have begun before.
  if (thread.depth == 0 || --thread.depth > 0) return;
  const std::optional<FailedCall> driver = std::exchange(thread.failure, std::nullopt);
  const bool reported = thread.reported;
  thread.runtime = nullptr;
  if (underway_.load(std::memory_order_relaxed) == 0 || reported) return;
  if (!runtime_returns_result(name) || result == ErrorCode::success || result == ErrorCode::not_ready ||
      result == ErrorCode::stream_capture_invalidated)
    return;
  FailedCall failure{name, nullptr, result, {}, runtime_does_work(name)};
  if (driver) {
    failure.driver_name = driver->driver_name;
    failure.stream = driver->stream;
    failure.is_work |= driver->is_work;
  }
  if (!broke_a_capture(failure)) refuse(failure);
}

void CallMonitor::begins(const DriverCall& call) {
  if (underway_.load(std::memory_order_relaxed) == 0) return;
  if (call.kind == DriverCall::Kind::end_capture && call.stream) begin_to_end(*call.stream);
  // Before the call: a destroyed stream must not be queried.
  if (call.kind == DriverCall::Kind::end_stream || call.kind == DriverCall::Kind::end_context) abandon(call);
}

void CallMonitor::ends(const DriverCall& call, ErrorCode result) {
  if (call.kind == DriverCall::Kind::capture && result == ErrorCode::success) return begun(call);
  if (underway_.load(std::memory_order_relaxed) == 0) return;
  if (call.kind == DriverCall::Kind::end_capture && ended(call, result)) return;
  if (result != ErrorCode::success)
    failed_at(call, result);
  else if (call.kind == DriverCall::Kind::work)
    executed(call);
}

void CallMonitor::begun(const DriverCall& call) {
  const StreamHandle stream = call.stream.value_or(nullptr);
  const OwnQuery own_query;
  WatchedCapture capture{0, call.context, nullptr, {}};
  capture.findings.stream = stream;
  capture.findings.mode = capture_mode_name(call.mode);
  capture.findings.thread = thread_number();
  capture.findings.device = driver_.device();
  capture.graph = driver_.captured_graph(stream);
  const std::scoped_lock lock(mutex_);
  capture.number = ++last_number_;
  std::erase_if(captures_, [&](const WatchedCapture& old) { return is_of(old.findings, stream); });
  std::erase_if(finished_, [&](const CaptureFindings& old) { return is_of(old, stream); });
  captures_.push_back(std::move(capture));
  underway_.store(static_cast<int>(captures_.size()), std::memory_order_relaxed);
}

void CallMonitor::begin_to_end(StreamHandle stream) {
  const OwnQuery own_query;
  const std::scoped_lock lock(mutex_);
  for (WatchedCapture& capture : captures_) {
    if (!is_of(capture.findings, stream)) continue;
    if (!capture.findings.broken_by && !capture.ending) capture.findings.nodes = driver_.node_count(capture.graph);
    capture.ending = true;
  }
}

void CallMonitor::failed_at(const DriverCall& call, ErrorCode result) {
  // Other codes are consequences of a broken capture, or results of queries.
  if (result == ErrorCode::not_ready || result == ErrorCode::stream_capture_invalidated ||
      call.kind == DriverCall::Kind::query)
    return;
  ThreadCalls& thread = thread_calls(generation_.load(std::memory_order_relaxed));
  const bool in_runtime = thread.runtime != nullptr;
  const bool is_work = call.kind == DriverCall::Kind::work;
  const FailedCall failure{in_runtime ? thread.runtime : call.name, call.name, result, call.stream, is_work};
  if (broke_a_capture(failure))
    thread.reported = true;
  else if (in_runtime)
    thread.failure = failure;
  else
    refuse(failure);
}

bool CallMonitor::broke_a_capture(const FailedCall& failure) {
  const OwnQuery own_query;
  Numbers broken;
  {
    const std::scoped_lock lock(mutex_);
    for (WatchedCapture& capture : captures_) {
      CaptureFindings& findings = capture.findings;
      if (findings.broken_by || capture.ending || !can_be_queried(findings) ||
          driver_.status(findings.stream) != CaptureStatus::invalidated)
        continue;
      CaptureFindings::ObservedCall call =
          described_call(failure.name, failure.driver_name, failure.result, failure.stream);
      const bool on_capture = query(failure.stream).value_or(CaptureStatus::none) != CaptureStatus::none;
      call.rule = rule_of_failure(failure.driver_name != nullptr ? failure.driver_name : failure.name, failure.result,
                                  on_capture);
      call.capturing_thread = call.thread == findings.thread;
      findings.nodes = driver_.node_count(capture.graph);
      findings.broken_by = std::move(call);
      broken.push_back(capture.number);
    }
  }
  if (broken.empty()) return false;
  const std::vector<std::string> stack = call_stack();
  const std::scoped_lock lock(mutex_);
  for (const std::uint64_t number : broken)
    if (WatchedCapture* const capture = find(number)) capture->findings.broken_by->stack = stack;
  return true;
}

void CallMonitor::refuse(const FailedCall& failure) {
  if (!failure.is_work && !is_about_captures(failure.result)) return;
  const OwnQuery own_query;
  CaptureFindings::ObservedCall call =
      described_call(failure.name, failure.driver_name, failure.result, failure.stream);
  Numbers missing;
  {
    const std::scoped_lock lock(mutex_);
    const bool on_capture = query(failure.stream).value_or(CaptureStatus::none) != CaptureStatus::none;
    call.rule = rule_of_failure(failure.driver_name != nullptr ? failure.driver_name : failure.name, failure.result,
                                on_capture);
    for (const WatchedCapture& capture : captures_)
      if (!capture.findings.broken_by &&
          (capture.findings.thread == call.thread || is_of(capture.findings, call.stream)))
        missing.push_back(capture.number);
  }
  if (missing.empty()) return;
  call.stack = call_stack();
  const std::scoped_lock lock(mutex_);
  for (const std::uint64_t number : missing)
    if (WatchedCapture* const capture = find(number)) {
      call.capturing_thread = call.thread == capture->findings.thread;
      add_call(capture->findings.refused, call);
    }
}

void CallMonitor::executed(const DriverCall& call) {
  const OwnQuery own_query;
  const StreamHandle stream = call.stream.value_or(nullptr);
  const std::uint64_t thread = thread_number();
  Numbers missed;
  {
    const std::scoped_lock lock(mutex_);
    // On the legacy stream: had a blocking stream of the context captured, the call would have failed.
    for (const WatchedCapture& capture : captures_) {
      const bool concerned = stream == nullptr ? capture.context == call.context : capture.findings.thread == thread;
      if (concerned && !capture.findings.broken_by && !is_of(capture.findings, stream))
        missed.push_back(capture.number);
    }
    if (missed.empty() || (stream != nullptr && query(stream) != CaptureStatus::none)) return;
    if (driver_.is_relaxed()) return;  // its thread takes care that no capture sees the work
  }
  const char* const runtime = thread_calls(generation_.load(std::memory_order_relaxed)).runtime;
  CaptureFindings::ObservedCall missing =
      described_call(runtime != nullptr ? runtime : call.name, call.name, ErrorCode::success, stream);
  missing.stack = call_stack();
  const std::scoped_lock lock(mutex_);
  for (const std::uint64_t number : missed)
    if (WatchedCapture* const capture = find(number)) {
      missing.capturing_thread = thread == capture->findings.thread;
      add_call(capture->findings.not_captured, missing);
    }
}

bool CallMonitor::ended(const DriverCall& call, ErrorCode result) {
  const OwnQuery own_query;
  std::optional<WatchedCapture> over;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(captures_.begin(), captures_.end(),
                                    [&](const WatchedCapture& one) { return is_of(one.findings, call.stream); });
    if (found == captures_.end()) return false;
    // Refused, for example on a wrong stream: the capture continues, possibly broken.
    if (result != ErrorCode::success && query(call.stream) != CaptureStatus::none) {
      found->ending = false;
      return false;
    }
    over = std::move(*found);
    captures_.erase(found);
    underway_.store(static_cast<int>(captures_.size()), std::memory_order_relaxed);
  }
  ThreadCalls& thread = thread_calls(generation_.load(std::memory_order_relaxed));
  thread.reported = true;
  CaptureFindings& findings = over->findings;
  findings.code = result;
  if (result != ErrorCode::success && result != ErrorCode::stream_capture_invalidated && !findings.broken_by) {
    const char* const name = thread.runtime != nullptr ? thread.runtime : call.name;
    findings.broken_by = described_call(name, call.name, result, call.stream);
    findings.broken_by->rule = rule_of_failure(call.name, result, true);
    findings.broken_by->capturing_thread = findings.broken_by->thread == findings.thread;
    findings.broken_by->stack = call_stack();
  }
  {
    const std::scoped_lock lock(mutex_);
    keep(findings);
  }
  if (finished_sink_) finished_sink_(findings);
  return true;
}

void CallMonitor::abandon(const DriverCall& call) {
  std::vector<CaptureFindings> abandoned;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(captures_, [&](WatchedCapture& capture) {
      const bool of_stream = call.kind == DriverCall::Kind::end_stream;
      if (of_stream && !is_of(capture.findings, call.stream)) return false;
      // The context that ends is unknown: after that, none of the streams may be queried.
      give_up(capture.findings, of_stream ? "The stream was destroyed before the capture was ended."
                                          : "A context was destroyed before the capture was ended.");
      abandoned.push_back(std::move(capture.findings));
      return true;
    });
    underway_.store(static_cast<int>(captures_.size()), std::memory_order_relaxed);
  }
  const OwnQuery own_query;
  for (const CaptureFindings& findings : abandoned)
    if (finished_sink_) finished_sink_(findings);
}

void CallMonitor::process_ends() {
  std::vector<WatchedCapture> left;
  {
    const std::scoped_lock lock(mutex_);
    left.swap(captures_);
    underway_.store(0, std::memory_order_relaxed);
  }
  for (WatchedCapture& capture : left) {
    give_up(capture.findings, "The program ended before the capture did.");
    if (finished_sink_) finished_sink_(capture.findings);
  }
}

std::optional<CaptureFindings> CallMonitor::describe(StreamHandle stream) {
  if (last_number_ == 0) return std::nullopt;  // calls were never watched
  const OwnQuery own_query;
  const std::scoped_lock lock(mutex_);
  const auto is_the_stream = [&](const CaptureFindings& one) { return is_of(one, stream); };
  const auto capture = std::find_if(captures_.begin(), captures_.end(),
                                    [&](const WatchedCapture& one) { return is_the_stream(one.findings); });
  if (capture == captures_.end()) {
    const auto over = std::find_if(finished_.begin(), finished_.end(), is_the_stream);
    return over != finished_.end() ? std::optional(*over) : std::nullopt;
  }
  CaptureFindings known = capture->findings;
  if (!known.broken_by && !capture->ending) known.nodes = driver_.node_count(capture->graph);
  return known;
}

void CallMonitor::forget() {
  const std::scoped_lock lock(mutex_);
  captures_.clear();
  finished_.clear();
  underway_.store(0, std::memory_order_relaxed);
  generation_.store(next_generation(), std::memory_order_relaxed);
}

CallMonitor::WatchedCapture* CallMonitor::find(std::uint64_t number) {
  const auto found =
      std::find_if(captures_.begin(), captures_.end(), [&](const WatchedCapture& one) { return one.number == number; });
  return found != captures_.end() ? &*found : nullptr;
}

std::optional<CaptureStatus> CallMonitor::query(std::optional<StreamHandle> stream) {
  if (!stream || *stream == nullptr) return std::nullopt;
  return driver_.status(*stream);
}

void CallMonitor::keep(CaptureFindings findings) {
  constexpr std::size_t most = 64;
  std::erase_if(finished_, [&](const CaptureFindings& old) {
    return old.stream == findings.stream && old.thread == findings.thread;
  });
  if (finished_.size() == most) finished_.erase(finished_.begin());
  finished_.push_back(std::move(findings));
}

}  // namespace reprise::backend::cuda
