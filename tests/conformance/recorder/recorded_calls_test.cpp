// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <stdexcept>

#include "tests/conformance/contracts/contract.h"
#include "tests/conformance/recorder/by_class.h"
#include "tests/conformance/recorder/measured.h"

// Compares every device with what the recorder wrote down on a GPU, row by row: the calls of the backend interface, and
// further ones of CUDA. Those the host device cannot make; it must give the same by the rules of their class. What is
// in the files measurement_test.cpp says.

namespace reprise::backend::test {
namespace {

/// The callers of a row's kind: each kind is a test of its own, and each row belongs to one.
enum class Callers {
  same,
  other_threads,
  another_device,
  with_two_captures,
  with_two_captures_on_two_threads,
  exchanged
};

Callers kind_of(Caller caller) {
  switch (caller) {
    case Caller::same:
      return Callers::same;
    case Caller::other:
    case Caller::other_capturing:
      return Callers::other_threads;
    case Caller::other_device:
    case Caller::other_device_on_ours:
      return Callers::another_device;
    case Caller::same_with_global:
    case Caller::same_with_thread_local:
    case Caller::same_with_relaxed:
      return Callers::with_two_captures;
    case Caller::other_with_global:
    case Caller::other_with_thread_local:
    case Caller::other_with_relaxed:
      return Callers::with_two_captures_on_two_threads;
    case Caller::same_exchanged_to_thread_local:
    case Caller::same_exchanged_to_relaxed:
    case Caller::other_exchanged_to_thread_local:
    case Caller::other_exchanged_to_relaxed:
      return Callers::exchanged;
  }
  throw std::logic_error("a caller without a kind");
}

/// A call of the host device that obeys the rules of its class. The last word of the name, "cudaEventQuery in", says
/// what it works on; without a stream, work goes to the legacy default stream.
RecordedCall obeying(const std::string& name) {
  std::istringstream text(name);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return {name, [words](State& x) {
            const std::string& on = words.back();
            const StreamHandle stream = on == "s" ? x.s : on == "nb" ? x.nb : nullptr;
            const EventHandle event = on == "in" ? x.in : on == "out" ? x.out : nullptr;
            return obey_rules(x.backend, words.front(), stream, event);
          }};
}

bool is_of_cuda(const std::string& call) {
  return call.starts_with("cu");
}

class Recorded : public testing::TestWithParam<Device> {
 protected:
  /// Makes each call of the file that callers of this kind made, in its situation.
  void compare(const char* file, Callers callers);

 private:
  std::string not_applicable(const Row& row) const;
  Row made_here(const Row& expected);
  const RecordedCall& call_named(const std::string& name);

  std::map<std::string, RecordedCall> calls_;
};

/// Empty if the row is to be compared.
std::string Recorded::not_applicable(const Row& row) const {
  std::string why;
  if (kind_of(row.situation.caller) == Callers::another_device) why = why_lacking(GetParam(), Capability::two_devices);
  if (why.empty() && row.situation.stream == StreamKind::green)
    why = why_lacking(GetParam(), Capability::green_contexts);
  return why;
}

const RecordedCall& Recorded::call_named(const std::string& name) {
  if (calls_.empty()) {
    for (const RecordedCall& call : recorded_calls()) calls_[call.name] = call;
    for (const RecordedCall& call : further_calls()) calls_[call.name] = call;
    for (const RecordedCall& call : node_calls()) calls_[call.name] = call;
  }
  const bool by_class = is_of_cuda(name) && why_lacking(GetParam(), Capability::calls_by_class).empty();
  if (by_class) calls_[name] = obeying(name);
  const auto found = calls_.find(name);
  if (found == calls_.end()) throw std::runtime_error("no call of the recorder has the name " + name);
  return found->second;
}

Row Recorded::made_here(const Row& expected) {
  Row row = record(GetParam().backend(), another_like(GetParam()), call_named(expected.call), expected.situation);
  // CUDA's runtime remembers what a call of its own returned, but no result of the driver. No host device can show
  // that: of it, this compares one column of the measurement with another.
  if (GetParam().type() == DeviceType::host && row.call.starts_with("cuda")) row.last = row.result;
  return row;
}

void Recorded::compare(const char* file, Callers callers) {
  std::map<std::string, std::size_t> left_out;
  std::size_t all = 0, compared = 0, disagree = 0;
  for (const Row& expected : measured(file)) {
    if (kind_of(expected.situation.caller) != callers) continue;
    ++all;
    if (const std::string why = not_applicable(expected); !why.empty()) {
      ++left_out[why];
      continue;
    }
    ++compared;
    const Row made = made_here(expected);
    if (!(made == expected)) ++disagree;
    EXPECT_EQ(made, expected) << expected.where();
  }
  std::printf("  %s: %zu rows measured, %zu compared, %zu not applicable, %zu disagree\n", file, all, compared,
              all - compared, disagree);
  for (const auto& [why, count] : left_out) std::printf("  %zu not applicable: %s\n", count, why.c_str());
  EXPECT_GT(compared, 0U);
}

// Suites of their own: they take their time on a GPU.
class RecordedCalls : public Recorded {};
class RecordedCallsOfOtherThreads : public Recorded {};
class RecordedCallsOfAnotherDevice : public Recorded {};
class RecordedCallsWithTwoCaptures : public Recorded {};
class RecordedCallsOfThreadsInAnotherMode : public Recorded {};
class CallsOnNodes : public Recorded {};
class FurtherCalls : public Recorded {};
class FurtherCallsOfOtherThreads : public Recorded {};
class FurtherCallsOfAnotherDevice : public Recorded {};
REPRISE_ON_EVERY_DEVICE(RecordedCalls);
REPRISE_ON_EVERY_DEVICE(RecordedCallsOfOtherThreads);
REPRISE_ON_EVERY_DEVICE(RecordedCallsOfAnotherDevice);
REPRISE_ON_EVERY_DEVICE(RecordedCallsWithTwoCaptures);
REPRISE_ON_EVERY_DEVICE(RecordedCallsOfThreadsInAnotherMode);
REPRISE_ON_EVERY_DEVICE(CallsOnNodes);
REPRISE_ON_EVERY_DEVICE(FurtherCalls);
REPRISE_ON_EVERY_DEVICE(FurtherCallsOfOtherThreads);
REPRISE_ON_EVERY_DEVICE(FurtherCallsOfAnotherDevice);

TEST_P(RecordedCalls, GiveWhatTheGpuGave) {
  compare(calls_file, Callers::same);
}

TEST_P(RecordedCallsOfOtherThreads, GiveWhatTheGpuGave) {
  compare(calls_file, Callers::other_threads);
}

TEST_P(RecordedCallsOfAnotherDevice, GiveWhatTheGpuGave) {
  REPRISE_NEEDS(GetParam(), Capability::two_devices);
  compare(calls_file, Callers::another_device);
}

TEST_P(RecordedCallsWithTwoCaptures, GiveWhatTheGpuGave) {
  compare(calls_file, Callers::with_two_captures);
}

TEST_P(RecordedCallsWithTwoCaptures, OnTwoThreadsGiveWhatTheGpuGave) {
  compare(calls_file, Callers::with_two_captures_on_two_threads);
}

TEST_P(RecordedCallsOfThreadsInAnotherMode, GiveWhatTheGpuGave) {
  compare(calls_file, Callers::exchanged);
}

TEST_P(CallsOnNodes, GiveWhatTheGpuGave) {
  compare(nodes_file, Callers::same);
  compare(nodes_file, Callers::other_threads);
}

// What the recorder needs on a GPU: each call has its state before, and leaves none behind. Calls on graphs that do not
// capture are queries and changes of the host's: they leave the capture as it was.
TEST_P(CallsOnNodes, AreMadeInEachSituation) {
  if (GetParam().type() != DeviceType::host) GTEST_SKIP() << "on a GPU the recorder makes them";
  for (const Part& part : parts_on_nodes())
    for (const RecordedCall& call : *part.calls)
      for (const Row& row : record(GetParam().backend(), nullptr, call, part.situations)) {
        // This call uses the capturing graph, and only works while it is there.
        const bool in_capture = row.call == "graph_add_node child to the capture of s";
        if (row.situation.invalidated && !in_capture) {
          EXPECT_EQ(row.after, static_cast<int>(CaptureStatus::invalidated)) << row.where();
        }
        EXPECT_NE(row.result, static_cast<int>(ErrorCode::unknown)) << row.where();
      }
}

TEST_P(FurtherCalls, GiveWhatTheGpuGave) {
  compare(further_file, Callers::same);
}

TEST_P(FurtherCallsOfOtherThreads, GiveWhatTheGpuGave) {
  compare(further_file, Callers::other_threads);
}

TEST_P(FurtherCallsOfAnotherDevice, GiveWhatTheGpuGave) {
  REPRISE_NEEDS(GetParam(), Capability::two_devices);
  compare(further_file, Callers::another_device);
}

}  // namespace
}  // namespace reprise::backend::test
