// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>

#include "reprise/timings.h"

// Times as JSON. Names of nodes come from users: what is no UTF-8 in them must not throw.

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const NodeTiming& node) {
  return {{"index", node.index ? Json(*node.index) : Json()},
          {"number", node.number},
          {"name", node.name},
          {"annotation", node.annotation},
          {"start_us", node.start_us},
          {"duration_us", node.duration_us},
          {"runs", node.runs},
          {"span_us", node.span_us}};
}

Json json_of(const AnnotationTiming& sum) {
  return {{"annotation", sum.annotation},
          {"nodes", sum.nodes},
          {"start_us", sum.start_us},
          {"span_us", sum.span_us},
          {"duration_us", sum.duration_us}};
}

}  // namespace

std::string to_json(const ReplayTiming& timing) {
  Json nodes = Json::array(), annotations = Json::array();
  for (const NodeTiming& node : timing.nodes) nodes.push_back(json_of(node));
  for (const AnnotationTiming& sum : timing.annotations) annotations.push_back(json_of(sum));
  return Json({{"nodes", nodes}, {"total_us", timing.total_us}, {"annotations", annotations}, {"notes", timing.notes}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reprise
