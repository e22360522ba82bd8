// SPDX-License-Identifier: Apache-2.0
#include "reprise/json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/graph/graph_fixture.h"

// What JSON has is what the value has.

namespace reprise::graphs::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Quotes, a backslash, a line end, a control character, UTF-8, and a byte that is none.
const std::string strange = "a\"b\\c\nd\x01 \xc3\xa9 \xff";
const std::string strange_in_json = "a\"b\\c\nd\x01 \xc3\xa9 \xef\xbf\xbd";

CaptureReport full_report() {
  CaptureReport report;
  report.code = ErrorCode::stream_capture_invalidated;
  report.graph = strange;
  report.device = "cuda:0";
  report.mode = "global";
  report.stream = reinterpret_cast<StreamHandle>(0x7f00);
  report.thread = 17;
  report.nodes = 2;
  report.annotation = {{"name", "forward"}};
  report.operators = {"aten::item"};
  report.broken_by = CaptureReport::Call{.name = "cudaMalloc",
                                         .driver_name = "cuMemAlloc_v2",
                                         .result = ErrorCode::stream_capture_unsupported,
                                         .rule = "a rule",
                                         .advice = "an advice",
                                         .thread = 18,
                                         .capturing_thread = false,
                                         .stack = {"f at a+0x1", "main"},
                                         .times = 3,
                                         .first_use = "cuBLAS"};
  report.refused.push_back({.name = "cuMemcpyBatchAsync", .result = ErrorCode::not_supported});
  report.not_captured.push_back({.name = "cudaMemset", .stream = StreamHandle(nullptr)});
  report.host_accesses.push_back({.address = reinterpret_cast<void*>(0x10), .bytes = 64, .writes = true, .node = "n"});
  report.notes = {"A note."};
  return report;
}

TEST(CaptureReportsInJson, HaveWhatTheReportHas) {
  const json call = {{"name", "cudaMalloc"},
                     {"driver_name", "cuMemAlloc_v2"},
                     {"result", {{"name", "cudaErrorStreamCaptureUnsupported"}, {"number", 900}}},
                     {"rule", "a rule"},
                     {"advice", "an advice"},
                     {"thread", 18},
                     {"capturing_thread", false},
                     {"stream", nullptr},
                     {"stack", {"f at a+0x1", "main"}},
                     {"times", 3},
                     {"first_use", "cuBLAS"}};
  const json found = json::parse(to_json(full_report()));
  EXPECT_EQ(found["outcome"], "failed");
  EXPECT_EQ(found["code"], json({{"name", "cudaErrorStreamCaptureInvalidated"}, {"number", 901}}));
  EXPECT_EQ(found["graph"], strange_in_json);
  EXPECT_EQ(found["device"], "cuda:0");
  EXPECT_EQ(found["mode"], "global");
  EXPECT_EQ(found["stream"], "0x7f00");
  EXPECT_EQ(found["thread"], 17);
  EXPECT_EQ(found["nodes"], 2);
  EXPECT_EQ(found["annotation"], json({{"name", "forward"}}));
  EXPECT_EQ(found["operators"], json::array({"aten::item"}));
  EXPECT_EQ(found["broken_by"], call);
  EXPECT_EQ(found["refused"][0]["result"]["number"], 801);
  EXPECT_EQ(found["not_captured"][0]["stream"], "0x0");
  EXPECT_EQ(
      found["host_accesses"],
      json::array({{{"address", "0x10"}, {"bytes", 64}, {"writes", true}, {"node", "n"}, {"stack", json::array()}}}));
  EXPECT_EQ(found["notes"], json::array({"A note."}));
  EXPECT_EQ(found.size(), 15U);
}

TEST(CaptureReportsInJson, AreOneLineThatBeginsWithTheOutcome) {
  EXPECT_THAT(to_json(full_report()), Not(HasSubstr("\n")));
  EXPECT_EQ(to_json(CaptureReport{}).find(R"({"outcome":"good","code":{"name":"cudaSuccess","number":0},"graph":"",)"),
            0U);
  CaptureReport incomplete;
  incomplete.not_captured.push_back({.name = "cudaMemset"});
  EXPECT_EQ(json::parse(to_json(incomplete))["outcome"], "incomplete");
}

TEST(CaptureReportsInJson, HaveNullAndEmptyListsForWhatIsNotKnown) {
  const json found = json::parse(to_json(CaptureReport{}));
  EXPECT_TRUE(found["nodes"].is_null());
  EXPECT_TRUE(found["broken_by"].is_null());
  EXPECT_EQ(found["annotation"], json::object());
  for (const char* const list : {"operators", "refused", "not_captured", "host_accesses", "notes"})
    EXPECT_EQ(found[list], json::array()) << list;
}

TEST(CaptureReportsInJson, HaveTheCallThatBrokeARealCapture) {
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, {.name = "step"}, [] { make_unsafe_call(); }), CaptureError);
  ASSERT_TRUE(graph.capture_report().has_value());
  const json found = json::parse(to_json(*graph.capture_report()));
  EXPECT_EQ(found["graph"], "step");
  EXPECT_EQ(found["broken_by"]["name"], graph.capture_report()->broken_by->name);
  EXPECT_EQ(found["broken_by"]["stack"].size(), graph.capture_report()->broken_by->stack.size());
}

TEST(TimingsInJson, HaveTheNodesAndTheSums) {
  ReplayTiming timing;
  timing.nodes = {{.index = 3,
                   .number = "3.1",
                   .name = strange,
                   .annotation = {{"layer", "0"}},
                   .start_us = 0.5,
                   .duration_us = 1.25,
                   .runs = 2,
                   .span_us = 1.5},
                  {.name = "memset"}};
  timing.total_us = 1.75;
  timing.annotations = {
      {.annotation = {{"layer", "0"}}, .nodes = 1, .start_us = 0.5, .span_us = 1.25, .duration_us = 2}};
  timing.notes = {"A note."};
  EXPECT_EQ(json::parse(to_json(timing)), json({{"nodes",
                                                 {{{"index", 3},
                                                   {"number", "3.1"},
                                                   {"name", strange_in_json},
                                                   {"annotation", {{"layer", "0"}}},
                                                   {"start_us", 0.5},
                                                   {"duration_us", 1.25},
                                                   {"runs", 2},
                                                   {"span_us", 1.5}},
                                                  {{"index", nullptr},
                                                   {"number", ""},
                                                   {"name", "memset"},
                                                   {"annotation", json::object()},
                                                   {"start_us", 0.0},
                                                   {"duration_us", 0.0},
                                                   {"runs", 1},
                                                   {"span_us", 0.0}}}},
                                                {"total_us", 1.75},
                                                {"annotations", json::array({{{"annotation", {{"layer", "0"}}},
                                                                              {"nodes", 1},
                                                                              {"start_us", 0.5},
                                                                              {"span_us", 1.25},
                                                                              {"duration_us", 2.0}}})},
                                                {"notes", json::array({"A note."})}}));
}

TEST(StatisticsInJson, HaveTheCountsOfACache) {
  GraphCacheStatistics counts;
  counts.hits = 4;
  counts.checks = {3, std::chrono::nanoseconds(90)};
  counts.eager_by_cause[static_cast<std::size_t>(EagerCause::too_large)] = 7;
  counts.entries = 2;
  counts.max_bytes = std::uint64_t{1} << 40;
  counts.recaptures = {{RecaptureCause::evicted_bytes, "length", 5}, {RecaptureCause::forgotten, "", 1}};
  const json found = json::parse(to_json(counts));
  EXPECT_EQ(found["hits"], 4);
  EXPECT_EQ(found["checks"], json({{"number", 3}, {"time_ns", 90}}));
  EXPECT_EQ(found["eager_by_cause"],
            json({{"counted", 0}, {"failed", 0}, {"too_large", 7}, {"thrashing", 0}, {"unordered", 0}}));
  EXPECT_EQ(found["entries"], 2);
  EXPECT_EQ(found["max_bytes"], std::uint64_t{1} << 40);
  EXPECT_EQ(found["recaptures"], json::array({{{"cause", "evicted_bytes"}, {"field", "length"}, {"number", 5}},
                                              {{"cause", "forgotten"}, {"field", ""}, {"number", 1}}}));
  EXPECT_EQ(found.size(), 13U);
}

TEST(StatisticsInJson, HaveTheCountsOfAPool) {
  EXPECT_EQ(json::parse(to_json(PoolStatistics{1, 2, 3, 4, 5, 6, {"step"}})),
            json({{"reserved_bytes", 1},
                  {"allocated_bytes", 2},
                  {"peak_reserved_bytes", 3},
                  {"peak_allocated_bytes", 4},
                  {"segments", 5},
                  {"allocations", 6},
                  {"graphs", json::array({"step"})}}));
}

TEST(StatisticsInJson, HaveTheMemoryOfAGraph) {
  GraphMemory memory;
  memory.graphs = 3;
  memory.executables = 2;
  memory.nodes = 40;
  memory.pool.allocated_bytes = 5;
  memory.tensor_reserved_bytes = 6;
  memory.tensor_allocated_bytes = 7;
  memory.left_bytes = 12;
  memory.left_by_ended_bytes = 13;
  memory.estimate = {8, 9};
  const json found = json::parse(to_json(memory));
  EXPECT_EQ(found["pool"], json::parse(to_json(memory.pool)));
  EXPECT_EQ(found["estimate"], json({{"host_bytes", 8}, {"device_bytes", 9}}));
  EXPECT_EQ(found["graphs"], 3);
  EXPECT_EQ(found["executables"], 2);
  EXPECT_EQ(found["nodes"], 40);
  EXPECT_EQ(found["tensor_reserved_bytes"], 6);
  EXPECT_EQ(found["tensor_allocated_bytes"], 7);
  EXPECT_EQ(found["left_bytes"], 12);
  EXPECT_EQ(found["left_by_ended_bytes"], 13);
  EXPECT_EQ(found.size(), 9U);
}

}  // namespace
}  // namespace reprise::graphs::test
