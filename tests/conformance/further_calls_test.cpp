// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "backend/cuda_calls.h"
#include "backend/host/capture.h"
#include "tests/conformance/contract.h"
#include "tests/conformance/measured.h"

// Calls of CUDA that the backend interface does not have: what their class makes of them on the host device, in every
// situation, against what the recorder wrote down on a GPU.

namespace reprise::backend::test {
namespace {

constexpr const char* file_name = "capture_further_calls_h200.csv";

/// "cuMemsetD16Async s" -> {"cuMemsetD16Async", "s"}
std::vector<std::string> words_of(const std::string& name) {
  std::istringstream text(name);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

bool works_on_a_stream(CallClass call_class) {
  switch (call_class) {
    case CallClass::always_allowed:
    case CallClass::potentially_unsafe:
    case CallClass::event_wait:
    case CallClass::device_wait:
      return false;
    default:
      return true;
  }
}

/// A call of the host device that does nothing but obey the rules of its class. The last words of the name say what it
/// works on; without a stream, work goes to the legacy default stream.
RecordedCall obeying(const std::string& name) {
  const std::vector<std::string> words = words_of(name);
  const CudaCall* const call = find_cuda_call(words.front());
  if (call == nullptr) return {name, {}};
  return {name, [call, words](State& x) {
            host::HostRuntime& runtime = host::HostRuntime::instance();
            const std::scoped_lock lock(runtime.mutex);
            host::HostDevice& device = *runtime.devices.at(static_cast<std::size_t>(x.backend.index()));
            host::CallSite site{Call::device_synchronize, &device};
            if (works_on_a_stream(call->call_class)) {
              const StreamHandle stream = words.back() == "s" ? x.s : words.back() == "nb" ? x.nb : nullptr;
              site.stream = runtime.find(stream, device);
            }
            for (const std::string& word : words)
              if (word == "in" || word == "out") site.event = runtime.find(word == "in" ? x.in : x.out);
            return check_capture_rules(runtime, site, call->call_class, words.front().c_str());
          }};
}

/// CUDA's runtime remembers what a call of its own returned last.
int remembered(const Row& row) {
  return row.call.starts_with("cuda") ? row.result : 0;
}

TEST(FurtherCalls, MeetTheRulesOfTheirClassAsOnTheGpu) {
  const std::vector<Row> rows = measured(file_name);
  if (rows.empty()) GTEST_SKIP() << "there is no measurement yet: " << file_name;
  const std::vector<Device> devices = usable_devices();
  const auto host = std::find_if(devices.begin(), devices.end(),
                                 [](const Device& device) { return device.type() == DeviceType::host; });
  ASSERT_NE(host, devices.end());
  Backend* const other = another_like(*host);
  std::map<std::string, std::size_t> left_out;
  std::size_t compared = 0;
  for (const Row& expected : rows) {
    if (expected.situation.stream == StreamKind::green) continue;
    if (expected.situation.caller == Caller::other_device)
      if (const std::string why = why_lacking(*host, Capability::two_devices); !why.empty()) {
        ++left_out[why];
        continue;
      }
    const RecordedCall call = obeying(expected.call);
    if (!call.make) {
      ADD_FAILURE() << expected.call << " is not in the table of CUDA's calls";
      continue;
    }
    Row actual = record(host->backend(), other, call, expected.situation);
    actual.last = remembered(actual);
    EXPECT_EQ(actual, expected) << expected.where();
    ++compared;
  }
  EXPECT_GT(compared, 1000U);
  for (const auto& [why, count] : left_out) std::printf("  %zu rows left out: %s\n", count, why.c_str());
}

TEST(FurtherCalls, OnAStreamOfAGreenContextAreWhatTheyAreOnANonBlockingOne) {
  const std::vector<Row> further = measured(file_name);
  if (further.empty()) GTEST_SKIP() << "there is no measurement yet: " << file_name;
  const std::vector<Row> ordinary = measured("capture_calls_h200.csv");
  std::size_t compared = 0;
  for (const Row& green : further) {
    if (green.situation.stream != StreamKind::green) continue;
    Row twin = green;
    twin.situation.stream = StreamKind::non_blocking;
    const auto found = std::find_if(ordinary.begin(), ordinary.end(), [&](const Row& row) {
      return row.call == twin.call && row.situation == twin.situation;
    });
    ASSERT_NE(found, ordinary.end()) << twin.where();
    EXPECT_EQ(*found, twin) << green.where();
    ++compared;
  }
  EXPECT_GT(compared, 500U);
}

}  // namespace
}  // namespace reprise::backend::test
