// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "tests/conformance/by_class.h"
#include "tests/conformance/contract.h"
#include "tests/conformance/measured.h"

// Calls of CUDA that the backend interface does not have: what their class makes of them on the host device, in every
// situation, against what the recorder wrote down on a GPU.

namespace reprise::backend::test {
namespace {

constexpr const char* file_name = "capture_further_calls_h200.csv";

/// "cudaEventQuery in" -> {"cudaEventQuery", "in"}
std::vector<std::string> words_of(const std::string& name) {
  std::istringstream text(name);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

/// A call of the host device that obeys the rules of its class. The last word of the name says what it works on;
/// without a stream, work goes to the legacy default stream.
RecordedCall obeying(const std::string& name) {
  const std::vector<std::string> words = words_of(name);
  return {name, [words](State& x) {
            const std::string& on = words.back();
            const StreamHandle stream = on == "s" ? x.s : on == "nb" ? x.nb : nullptr;
            const EventHandle event = on == "in" ? x.in : on == "out" ? x.out : nullptr;
            return obey_rules(x.backend, words.front(), stream, event);
          }};
}

/// CUDA's runtime remembers what a call of its own returned; the driver tells it nothing.
int remembered(const Row& row) {
  return row.call.starts_with("cuda") ? row.result : 0;
}

Device host_device() {
  const std::vector<Device> devices = usable_devices();
  return *std::find_if(devices.begin(), devices.end(),
                       [](const Device& device) { return device.type() == DeviceType::host; });
}

TEST(FurtherCalls, MeetTheRulesOfTheirClassAsOnTheGpu) {
  const Device host = host_device();
  Backend* const other = another_like(host);
  std::map<std::string, std::size_t> left_out;
  std::size_t compared = 0;
  for (const Row& expected : measured(file_name)) {
    if (expected.situation.stream == StreamKind::green) {
      ++left_out["the host device has no green contexts; see the test of those"];
      continue;
    }
    if (expected.situation.caller == Caller::other_device)
      if (const std::string why = why_lacking(host, Capability::two_devices); !why.empty()) {
        ++left_out[why];
        continue;
      }
    Row actual = record(host.backend(), other, obeying(expected.call), expected.situation);
    actual.last = remembered(actual);
    EXPECT_EQ(actual, expected) << expected.where();
    ++compared;
  }
  EXPECT_GT(compared, 10000U);
  for (const auto& [why, count] : left_out) std::printf("  %zu rows left out: %s\n", count, why.c_str());
}

TEST(FurtherCalls, AreAllMadeByTheRecorder) {
  if (further_calls().empty()) GTEST_SKIP() << "nvcc did not compile this, so the recorder has no calls of CUDA";
  std::set<std::string> made, in_the_file;
  for (const RecordedCall& call : further_calls()) made.insert(call.name);
  for (const Row& row : measured(file_name))
    if (row.situation.stream != StreamKind::green) in_the_file.insert(row.call);
  EXPECT_EQ(in_the_file, made);
}

// A stream of a green context is a non-blocking stream, with one difference: waiting for the device waits for the
// streams of the current context, and the green one is another.
TEST(FurtherCalls, OnAStreamOfAGreenContextAreWhatTheyAreOnANonBlockingOne) {
  std::map<std::string, std::vector<Row>> ordinary;
  for (Row& row : measured("capture_calls_h200.csv")) ordinary[row.call].push_back(std::move(row));
  std::size_t compared = 0;
  for (const Row& green : measured(file_name)) {
    if (green.situation.stream != StreamKind::green) continue;
    Row twin = green;
    twin.situation.stream = StreamKind::non_blocking;
    if (twin.call == "device_synchronize") twin.call = "memory_info";  // which no capture forbids
    const std::vector<Row>& rows = ordinary[twin.call];
    EXPECT_THAT(rows, testing::Contains(twin)) << green.where();
    ++compared;
  }
  EXPECT_GT(compared, 700U);
}

}  // namespace
}  // namespace reprise::backend::test
