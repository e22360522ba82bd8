// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <typeindex>
#include <vector>

#include "graph/listeners/child_listener.h"
#include "graph/listeners/collectives_listener.h"
#include "graph/listeners/listeners.h"
#include "graph/listeners/pool_listener.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/annotations/progress_listener.h"
#include "inspect/frozen/frozen_listener.h"
#include "inspect/liveness/host_copies_listener.h"
#include "inspect/liveness/liveness_listener.h"
#include "inspect/report/report_listener.h"
#include "tests/unit/graph/failure_walk/failure_walk.h"

// The walk goes through each listener of a graph.

namespace reprise::graphs::test {
namespace {

/// The scenario in which a listener has most to do.
struct ListenerScenario {
  std::type_index listener;
  const char* scenario;  ///< its name
};

// The order is that of Listeners::Own::in_order() in listeners.cpp.
const ListenerScenario of_listeners[] = {
    {typeid(inspect::ReportListener), "capture_with_a_full_report"},
    {typeid(PoolListener), "capture_with_allocations"},
    {typeid(ChildListener), "capture_with_a_child"},
    {typeid(CollectivesListener), "capture_with_collectives"},
    {typeid(inspect::ProgressListener), "capture_with_progress_marks"},
    {typeid(RandomListener), "capture_with_random_numbers"},
    {typeid(inspect::AnnotationListener), "capture_with_annotations"},
    {typeid(inspect::FrozenListener), "capture_with_checked_values"},
    {typeid(inspect::LivenessListener), "capture_with_liveness"},
    {typeid(inspect::HostCopiesListener), "capture_with_copies_of_the_host"},
    {typeid(RetainListener), "capture_with_hooks"},
};

TEST(FailureWalkScenarios, AreThereForEveryListener) {
  std::vector<std::type_index> expected, found;
  const Listeners all;
  for (const CaptureListener* const listener : all.in_order()) {
    const CaptureListener& one = *listener;
    expected.emplace_back(typeid(one));
  }
  for (const ListenerScenario& each : of_listeners) {
    found.push_back(each.listener);
    const auto has_its_name = [&](const Scenario& scenario) { return std::string(scenario.name) == each.scenario; };
    EXPECT_TRUE(std::ranges::any_of(scenarios(), has_its_name)) << each.scenario;
  }
  EXPECT_TRUE(found == expected) << "a listener needs a scenario, and a line in the table above";
}

}  // namespace
}  // namespace reprise::graphs::test
