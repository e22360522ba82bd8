// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/rules/cuda_calls.h"
#include "tests/conformance/recorder/measured.h"

// What was measured on a GPU is complete: nothing that the recorder makes is missing in the files, and nothing that the
// interface or the table of CUDA's calls has is missing in the recorder.

namespace reprise::backend::test {
namespace {

constexpr const char* interface_calls[] = {
#define REPRISE_CALL(name, cuda, parameters, arguments) #name,
#include "backend/calls.def"
};
static_assert(std::size(interface_calls) == call_count);

/// The name under which the recorder has a call, without what it works on. Two are recorded with the end of what they
/// begin: the next row needs a device without captures.
std::string recorded_name(const std::string& interface_call) {
  if (interface_call == "stream_begin_capture") return "begin and end a capture on";
  if (interface_call == "stream_begin_capture_to_graph") return "begin and end a capture to a graph on";
  return interface_call;
}

/// True if these have the name, alone or with more words.
bool has_call(const std::set<std::string>& names, const std::string& name) {
  if (names.contains(name)) return true;
  const auto next = names.lower_bound(name + " ");
  return next != names.end() && next->starts_with(name + " ");
}

std::set<std::string> calls_in(const char* file) {
  std::set<std::string> names;
  for (const Row& row : measured(file)) names.insert(row.call);
  return names;
}

/// What one of the sets has and the other has not, not more than can be read.
std::string difference(const std::set<std::string>& expected, const std::set<std::string>& found) {
  std::string text;
  std::size_t count = 0;
  const auto list = [&](const char* what, const std::set<std::string>& of, const std::set<std::string>& in) {
    for (const std::string& one : of)
      if (!in.contains(one) && ++count <= 20) text += std::string(what) + one + "\n";
  };
  list("missing: ", expected, found);
  list("too many: ", found, expected);
  if (count > 20) text += "and " + std::to_string(count - 20) + " more\n";
  return text;
}

/// The rows that a file must have, as Row::where() has them. Without nvcc there are no further calls to be named: then
/// the file's own names are taken, and its head says how many there were.
std::set<std::string> places(const std::vector<Part>& parts, const std::set<std::string>& further_names) {
  std::set<std::string> all;
  for (const Part& part : parts) {
    std::set<std::string> names;
    for (const RecordedCall& call : *part.calls) names.insert(call.name);
    if (part.calls == &further_calls() && names.empty()) names = further_names;
    Row row;
    for (const std::string& name : names)
      for (const Situation& situation : part.situations) {
        row.call = name;
        row.situation = situation;
        all.insert(row.where());
      }
  }
  return all;
}

/// The file has these rows, each once.
void expect_rows(const char* file, const std::set<std::string>& expected) {
  const std::vector<Row> rows = measured(file);
  std::set<std::string> found;
  for (const Row& row : rows) EXPECT_TRUE(found.insert(row.where()).second) << "twice: " << row.where();
  EXPECT_EQ(difference(expected, found), "") << file;
  std::printf("  %s: %zu rows to be measured, %zu measured\n", file, expected.size(), rows.size());
}

TEST(Recorder, MakesEveryCallOfTheInterface) {
  std::set<std::string> made;
  for (const RecordedCall& call : recorded_calls()) made.insert(call.name);
  for (const char* call : interface_calls) EXPECT_TRUE(has_call(made, recorded_name(call))) << call;
}

TEST(Measurement, HasEveryCallOfTheInterfaceInEachOfItsSituations) {
  expect_rows(calls_file, places(parts_of_the_interface(true), {}));
}

TEST(Measurement, HasEveryFurtherCallInEachOfItsSituations) {
  std::set<std::string> further;
  for (const Row& row : measured(further_file))
    if (row.situation.stream != StreamKind::green) further.insert(row.call);
  EXPECT_EQ(further.size(), calls_by_the_head(further_file));
  expect_rows(further_file, places(parts_beside_it(true), further));
}

TEST(Measurement, HasEveryCallOnNodesInEachOfItsSituations) {
  expect_rows(nodes_file, places(parts_on_nodes(), {}));
}

TEST(Recorder, CallsOnNodesHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const auto* const calls : {&recorded_calls(), &node_calls()})
    for (const RecordedCall& call : *calls) EXPECT_TRUE(names.insert(call.name).second) << call.name;
}

// The driver's call stands for that of the runtime, which makes it, and the other way round.
TEST(Measurement, HasEveryCallOfTheTableOfCudaCalls) {
  std::set<std::string> of_cuda = calls_in(further_file);
  const std::set<std::string> of_the_interface = calls_in(calls_file);
  for (int i = 0; i < call_count; ++i)
    if (has_call(of_the_interface, recorded_name(interface_calls[i]))) of_cuda.insert(cuda_name(static_cast<Call>(i)));
  std::vector<std::string> guessed;
  for (const CudaCall& call : cuda_calls()) {
    const std::string driver(call.driver), runtime(call.runtime);
    const bool is_measured =
        (!driver.empty() && has_call(of_cuda, driver)) || (!runtime.empty() && has_call(of_cuda, runtime));
    if (!is_measured) guessed.push_back(driver.empty() ? runtime : driver);
  }
  EXPECT_THAT(guessed, testing::IsEmpty()) << "their class is a guess";
}

// A backend returns its results: no error may stay in the runtime, where later calls would find it.
TEST(Measurement, SaysThatNoCallOfTheInterfaceLeavesAnErrorInTheRuntime) {
  for (const Row& row : measured(calls_file)) ASSERT_EQ(row.last, 0) << row.where();
}

// A stream of a green context is a non-blocking stream, with one difference: waiting for the device waits for the
// streams of the current context, and the green one is another.
TEST(Measurement, SaysThatAStreamOfAGreenContextIsANonBlockingOne) {
  std::map<std::string, std::vector<Row>> ordinary;
  for (Row& row : measured(calls_file)) ordinary[row.call].push_back(row);
  for (const Row& green : measured(further_file)) {
    if (green.situation.stream != StreamKind::green) continue;
    Row twin = green;
    twin.situation.stream = StreamKind::non_blocking;
    if (twin.call == "device_synchronize") twin.call = "memory_info";  // which no capture forbids
    EXPECT_THAT(ordinary[twin.call], testing::Contains(twin)) << green.where();
  }
}

}  // namespace
}  // namespace reprise::backend::test
