// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/json/json_lines.h"
#include "inspect/report/explain.h"
#include "reprise/cache_statistics.h"
#include "reprise/capture_report.h"
#include "reprise/error.h"
#include "reprise/graph_memory.h"
#include "reprise/json.h"
#include "reprise/memory.h"
#include "reprise/timings.h"
#include "text/format.h"

// The one file of the library that includes nlohmann-json.

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// Texts come from users and from symbols of libraries: what is no UTF-8 must not throw.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Formats a number: with some versions of fmt, "{}" of a null pointer is empty.
Json address(const void* pointer) {
  return text::format("{:#x}", reinterpret_cast<std::uintptr_t>(pointer));
}

Json code(ErrorCode result) {
  return {{"name", result_name(result)}, {"number", static_cast<int>(result)}};
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <class Element, class F>
Json list(const std::vector<Element>& elements, const F& json_of) {
  Json all = Json::array();
  for (const Element& each : elements) all.push_back(json_of(each));
  return all;
}

Json json_of_call(const CaptureReport::Call& call) {
  return {{"name", call.name},
          {"driver_name", call.driver_name},
          {"result", code(call.result)},
          {"rule", call.rule},
          {"advice", call.advice},
          {"thread", call.thread},
          {"capturing_thread", call.capturing_thread},
          {"stream", call.stream ? address(*call.stream) : Json()},
          {"stack", call.stack},
          {"times", call.times},
          {"first_use", call.first_use}};
}

Json json_of_access(const CaptureReport::HostAccess& access) {
  return {{"address", address(access.address)},
          {"bytes", access.bytes},
          {"writes", access.writes},
          {"node", access.node},
          {"stack", access.stack}};
}

Json json_of_node(const NodeTiming& node) {
  return {{"index", or_null(node.index)},
          {"number", node.number},
          {"name", node.name},
          {"annotation", node.annotation},
          {"start_us", node.start_us},
          {"duration_us", node.duration_us},
          {"runs", node.runs},
          {"span_us", node.span_us}};
}

Json json_of_annotation(const AnnotationTiming& sum) {
  return {{"annotation", sum.annotation},
          {"nodes", sum.nodes},
          {"start_us", sum.start_us},
          {"span_us", sum.span_us},
          {"duration_us", sum.duration_us}};
}

Json json_of_count(const CacheCount& count) {
  return {{"number", count.number}, {"time_ns", count.time.count()}};
}

const char* name_of(EagerCause cause) {
  switch (cause) {
    case EagerCause::counted:
      return "counted";
    case EagerCause::failed:
      return "failed";
    case EagerCause::too_large:
      return "too_large";
    case EagerCause::thrashing:
      return "thrashing";
    case EagerCause::unordered:
      return "unordered";
  }
  return "?";
}

const char* name_of(RecaptureCause cause) {
  switch (cause) {
    case RecaptureCause::new_key:
      return "new_key";
    case RecaptureCause::evicted_number:
      return "evicted_number";
    case RecaptureCause::evicted_bytes:
      return "evicted_bytes";
    case RecaptureCause::forgotten:
      return "forgotten";
  }
  return "?";
}

Json json_of_reason(const RecaptureReason& reason) {
  return {{"cause", name_of(reason.cause)}, {"field", reason.field}, {"number", reason.number}};
}

Json json_of_pool(const PoolStatistics& statistics) {
  return {{"reserved_bytes", statistics.reserved_bytes},
          {"allocated_bytes", statistics.allocated_bytes},
          {"peak_reserved_bytes", statistics.peak_reserved_bytes},
          {"peak_allocated_bytes", statistics.peak_allocated_bytes},
          {"segments", statistics.segments},
          {"allocations", statistics.allocations},
          {"graphs", statistics.graphs}};
}

}  // namespace

namespace inspect {

std::string capture_line(const CaptureReport& report) {
  return "{\"capture\":" + to_json(report) + "}";
}

std::string message_line(std::string_view text) {
  return text_of({{"message", text}});
}

}  // namespace inspect

std::string to_json(const CaptureReport& report) {
  return text_of({{"outcome", inspect::name_of(inspect::outcome_of(report))},
                  {"code", code(report.code)},
                  {"graph", report.graph},
                  {"device", report.device},
                  {"mode", report.mode},
                  {"stream", address(report.stream)},
                  {"thread", report.thread},
                  {"nodes", or_null(report.nodes)},
                  {"annotation", report.annotation},
                  {"operators", report.operators},
                  {"broken_by", report.broken_by ? json_of_call(*report.broken_by) : Json()},
                  {"refused", list(report.refused, json_of_call)},
                  {"not_captured", list(report.not_captured, json_of_call)},
                  {"host_accesses", list(report.host_accesses, json_of_access)},
                  {"notes", report.notes}});
}

std::string to_json(const ReplayTiming& timing) {
  return text_of({{"nodes", list(timing.nodes, json_of_node)},
                  {"total_us", timing.total_us},
                  {"annotations", list(timing.annotations, json_of_annotation)},
                  {"notes", timing.notes}});
}

std::string to_json(const GraphCacheStatistics& statistics) {
  Json by_cause = Json::object();
  for (std::size_t i = 0; i < std::size(statistics.eager_by_cause); ++i)
    by_cause[name_of(static_cast<EagerCause>(i))] = statistics.eager_by_cause[i];
  return text_of({{"hits", statistics.hits},
                  {"captures", json_of_count(statistics.captures)},
                  {"failed_captures", json_of_count(statistics.failed_captures)},
                  {"checks", json_of_count(statistics.checks)},
                  {"evictions", json_of_count(statistics.evictions)},
                  {"eager", json_of_count(statistics.eager)},
                  {"eager_by_cause", by_cause},
                  {"entries", statistics.entries},
                  {"keys", statistics.keys},
                  {"pool_bytes", statistics.pool_bytes},
                  {"entry_bytes", statistics.entry_bytes},
                  {"max_bytes", statistics.max_bytes},
                  {"recaptures", list(statistics.recaptures, json_of_reason)}});
}

std::string to_json(const PoolStatistics& statistics) {
  return text_of(json_of_pool(statistics));
}

std::string to_json(const GraphMemory& memory) {
  return text_of(
      {{"graphs", memory.graphs},
       {"executables", memory.executables},
       {"nodes", memory.nodes},
       {"pool", json_of_pool(memory.pool)},
       {"tensor_reserved_bytes", memory.tensor_reserved_bytes},
       {"tensor_allocated_bytes", memory.tensor_allocated_bytes},
       {"left_bytes", memory.left_bytes},
       {"left_by_ended_bytes", memory.left_by_ended_bytes},
       {"estimate", {{"host_bytes", memory.estimate.host_bytes}, {"device_bytes", memory.estimate.device_bytes}}}});
}

}  // namespace reprise
