// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <set>
#include <sstream>

#include "tests/conformance/by_class.h"
#include "tests/conformance/contract.h"
#include "tests/conformance/measured.h"

// Compares every device with what the recorder wrote down on a GPU, row by row: the calls of the backend interface, and
// further ones of CUDA. Those the host device cannot make; it must give the same by the rules of their class.

namespace reprise::backend::test {
namespace {

constexpr const char* calls_file = "capture_calls_h200.csv";
constexpr const char* further_file = "capture_further_calls_h200.csv";

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
  /// Makes each call of the file that these callers made, in its situation.
  void compare(const char* file, std::initializer_list<Caller> callers);

 private:
  std::string not_applicable(const Row& row) const;
  Row made_here(const Row& expected);
  const RecordedCall& call_named(const std::string& name);

  std::map<std::string, RecordedCall> calls_;
};

/// Empty if the row is to be compared.
std::string Recorded::not_applicable(const Row& row) const {
  std::string why;
  if (row.situation.caller == Caller::other_device) why = why_lacking(GetParam(), Capability::two_devices);
  if (why.empty() && row.situation.stream == StreamKind::green)
    why = why_lacking(GetParam(), Capability::green_contexts);
  if (why.empty() && row.call == "memory_allocate_async s" && !row.situation.invalidated)
    why = why_lacking(GetParam(), Capability::allocation_nodes);
  return why;
}

const RecordedCall& Recorded::call_named(const std::string& name) {
  if (calls_.empty()) {
    for (const RecordedCall& call : recorded_calls()) calls_[call.name] = call;
    for (const RecordedCall& call : further_calls()) calls_[call.name] = call;
  }
  const bool by_class = is_of_cuda(name) && why_lacking(GetParam(), Capability::calls_by_class).empty();
  if (by_class) calls_[name] = obeying(name);
  const auto found = calls_.find(name);
  if (found == calls_.end()) throw std::runtime_error("no call of the recorder has the name " + name);
  return found->second;
}

Row Recorded::made_here(const Row& expected) {
  Row row = record(GetParam().backend(), another_like(GetParam()), call_named(expected.call), expected.situation);
  // CUDA's runtime remembers what a call of its own returned. The driver tells it nothing.
  if (GetParam().type() == DeviceType::host && row.call.starts_with("cuda")) row.last = row.result;
  return row;
}

void Recorded::compare(const char* file, std::initializer_list<Caller> callers) {
  std::map<std::string, std::size_t> left_out;
  std::size_t compared = 0;
  for (const Row& expected : measured(file)) {
    if (std::find(callers.begin(), callers.end(), expected.situation.caller) == callers.end()) continue;
    if (const std::string why = not_applicable(expected); !why.empty()) {
      ++left_out[why];
      continue;
    }
    EXPECT_EQ(made_here(expected), expected) << expected.where();
    ++compared;
  }
  for (const auto& [why, count] : left_out) std::printf("  %zu rows left out: %s\n", count, why.c_str());
  EXPECT_GT(compared, 2000U);
}

// Suites of their own: they take their time on a GPU.
class RecordedCalls : public Recorded {};
class RecordedCallsOfOtherThreads : public Recorded {};
class RecordedCallsOfAnotherDevice : public Recorded {};
class RecordedCallsWithTwoCaptures : public Recorded {};
class FurtherCalls : public Recorded {};
class FurtherCallsOfOtherThreads : public Recorded {};
class FurtherCallsOfAnotherDevice : public Recorded {};
REPRISE_ON_EVERY_DEVICE(RecordedCalls);
REPRISE_ON_EVERY_DEVICE(RecordedCallsOfOtherThreads);
REPRISE_ON_EVERY_DEVICE(RecordedCallsOfAnotherDevice);
REPRISE_ON_EVERY_DEVICE(RecordedCallsWithTwoCaptures);
REPRISE_ON_EVERY_DEVICE(FurtherCalls);
REPRISE_ON_EVERY_DEVICE(FurtherCallsOfOtherThreads);
REPRISE_ON_EVERY_DEVICE(FurtherCallsOfAnotherDevice);

TEST_P(RecordedCalls, GiveWhatTheGpuGave) {
  compare(calls_file, {Caller::same});
}

TEST_P(RecordedCallsOfOtherThreads, GiveWhatTheGpuGave) {
  compare(calls_file, {Caller::other, Caller::other_capturing});
}

TEST_P(RecordedCallsOfAnotherDevice, GiveWhatTheGpuGave) {
  REPRISE_NEEDS(GetParam(), Capability::two_devices);
  compare(calls_file, {Caller::other_device});
}

TEST_P(RecordedCallsWithTwoCaptures, GiveWhatTheGpuGave) {
  compare(calls_file, {Caller::same_with_global, Caller::same_with_thread_local, Caller::same_with_relaxed});
}

TEST_P(FurtherCalls, GiveWhatTheGpuGave) {
  compare(further_file, {Caller::same});
}

TEST_P(FurtherCallsOfOtherThreads, GiveWhatTheGpuGave) {
  compare(further_file, {Caller::other, Caller::other_capturing});
}

TEST_P(FurtherCallsOfAnotherDevice, GiveWhatTheGpuGave) {
  REPRISE_NEEDS(GetParam(), Capability::two_devices);
  compare(further_file, {Caller::other_device});
}

TEST(Measurement, HasEveryCallOfTheRecorder) {
  std::set<std::string> made, in_the_files;
  for (const RecordedCall& call : recorded_calls()) made.insert(call.name);
  for (const RecordedCall& call : further_calls()) made.insert(call.name);
  for (const Row& row : measured(calls_file)) in_the_files.insert(row.call);
  for (const Row& row : measured(further_file))
    if (!further_calls().empty()) in_the_files.insert(row.call);  // else nvcc did not compile this
  EXPECT_EQ(in_the_files, made);
}

// What a backend returns, its user reads there: nothing of it may be left in the runtime, for somebody else to find.
TEST(Measurement, SaysThatNoCallOfTheInterfaceLeavesAnErrorInTheRuntime) {
  for (const Row& row : measured(calls_file)) ASSERT_EQ(row.last, 0) << row.where();
}

// A stream of a green context is a non-blocking stream, with one difference: waiting for the device waits for the
// streams of the current context, and the green one is another.
TEST(Measurement, SaysThatAStreamOfAGreenContextIsANonBlockingOne) {
  std::map<std::string, std::vector<Row>> ordinary;
  for (Row& row : measured(calls_file)) ordinary[row.call].push_back(row);
  std::size_t compared = 0;
  for (const Row& green : measured(further_file)) {
    if (green.situation.stream != StreamKind::green) continue;
    Row twin = green;
    twin.situation.stream = StreamKind::non_blocking;
    if (twin.call == "device_synchronize") twin.call = "memory_info";  // which no capture forbids
    EXPECT_THAT(ordinary[twin.call], testing::Contains(twin)) << green.where();
    ++compared;
  }
  EXPECT_GT(compared, 700U);
}

}  // namespace
}  // namespace reprise::backend::test
