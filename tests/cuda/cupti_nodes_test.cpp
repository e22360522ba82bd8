// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/cupti_nodes.h"

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <gmock/gmock.h>

#include <cstdint>

#include "backend/cuda/cupti/cupti_watch.h"
#include "tests/fakes/fake_cupti.h"

// What becomes of CUPTI's activity records, with a libcupti.so.13 of the tests' own, whose numbers of nodes and
// executables are their handles.

namespace reprise::backend::cuda::test {
namespace {

constexpr std::uint32_t exec_number = 9;
const auto exec = reinterpret_cast<GraphExecHandle>(std::uintptr_t{exec_number});

GraphNodeHandle template_node(std::uintptr_t number) {
  return reinterpret_cast<GraphNodeHandle>((std::uintptr_t{3} << 32U) + number);
}

std::shared_ptr<NodeWatch> watch(std::string* why) {
  const WatchedNodes nodes{.top = {{template_node(0), NodeType::kernel},
                                   {template_node(1), NodeType::memcpy},
                                   {template_node(2), NodeType::memset}},
                           .inner = {}};
  return watch_nodes_through_cupti(nodes, exec, why);
}

int enabled_kinds() {
  return find<int (*)()>("libcupti.so.13", "fake_cupti_enabled_kinds")();
}

// What all kinds of records have.
struct Work {
  std::uint64_t node;  // in its executable
  std::uint64_t start;
  std::uint64_t end;
  std::uint32_t correlation = 1;
  std::uint32_t of_exec = exec_number;
};

template <class Activity>
void record(CUpti_ActivityKind kind, const Work& work, const char* name = nullptr) {
  Activity activity{};
  activity.kind = kind;
  activity.graphNodeId = (std::uint64_t{work.of_exec} << 32U) + work.node;
  activity.graphId = work.of_exec;
  activity.correlationId = work.correlation;
  activity.start = work.start;
  activity.end = work.end;
  if constexpr (requires { activity.name; }) activity.name = name;
  find<void (*)(const CUpti_Activity*)>("libcupti.so.13",
                                        "fake_cupti_record")(reinterpret_cast<const CUpti_Activity*>(&activity));
}

void record_kernel(const Work& work, const char* name = "_Z5scalePf") {
  record<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, work, name);
}
void record_copy(const Work& work) {
  record<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY, work);
}
void record_set(const Work& work) {
  record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, work);
}

bool is(const NodeTime& time, GraphNodeHandle node, const char* name, std::uint64_t start, std::uint64_t end) {
  return time.node == node && time.name == name && time.start_ns == start && time.end_ns == end;
}

class CuptiNodesTest : public FakeCuptiTest {
 protected:
  /// Runs in a process of its own, which ends well if everything that it requires is so.
  template <class Body>
  static void in_a_process(Body&& body) {
    const auto process = [&] {
      body();
      std::_Exit(0);
    };
    EXPECT_EXIT(process(), ::testing::ExitedWithCode(0), "");
  }
  static void expect_reason(const std::string& expected) {
    in_a_process([&] {
      std::string why;
      const bool watched = watch(&why) != nullptr;
      if (why != expected) std::fprintf(stderr, "%s\n", why.c_str());
      REQUIRE(!watched && why == expected);
    });
  }
};

TEST_F(CuptiNodesTest, FindsTheNodesOfTheTemplate) {
  in_a_process([] {
    std::string why;
    const auto watching = watch(&why);
    REQUIRE(watching != nullptr && why.empty());
    record_kernel({0, 100, 200});
    record_copy({1, 210, 220});
    record_set({2, 230, 240});
    std::vector<std::string> notes;
    const std::vector<NodeTime> times = watching->take(&notes);
    REQUIRE(times.size() == 3 && notes.empty());
    REQUIRE(is(times[0], template_node(0), "scale", 100, 200));
    REQUIRE(is(times[1], template_node(1), "memcpy", 210, 220));
    REQUIRE(is(times[2], template_node(2), "memset", 230, 240));
    REQUIRE(watching->take(&notes).empty());
  });
}

TEST_F(CuptiNodesTest, WaitsForRecordsThatCuptiHoldsBackForWorkBehindTheLaunch) {
  for (const char* const calls : {"3", "1000000"}) {  // until that is over; longer, until they are forced
    setenv("FAKE_LIBCUPTI_HELD", calls, 1);
    in_a_process([] {
      std::string why;
      const auto watching = watch(&why);
      record_kernel({0, 100, 200});
      record_copy({1, 210, 220});
      record_set({2, 230, 0});  // not over when it is forced
      std::vector<std::string> notes;
      const std::vector<NodeTime> times = watching->take(&notes);
      REQUIRE(times.size() == 2 && notes.empty());
      REQUIRE(is(times[0], template_node(0), "scale", 100, 200));
    });
  }
}

TEST_F(CuptiNodesTest, TakesTheLastLaunchOfTheExecutableAlone) {
  in_a_process([] {
    std::string why;
    const auto watching = watch(&why);
    record_kernel({0, 1, 2, 5});
    record_kernel({0, 11, 12, 6});
    record_kernel({0, 21, 22, 7, exec_number + 1});
    std::vector<std::string> notes;
    const std::vector<NodeTime> times = watching->take(&notes);
    REQUIRE(times.size() == 1);
    REQUIRE(is(times[0], template_node(0), "scale", 11, 12));
  });
}

TEST_F(CuptiNodesTest, NamesACopyThatTheGpuDoesByAKernel) {
  in_a_process([] {
    std::string why;
    const auto watching = watch(&why);
    record_kernel({1, 1, 2}, "memcpy32_post");
    std::vector<std::string> notes;
    REQUIRE(is(watching->take(&notes).at(0), template_node(1), "memcpy", 1, 2));
  });
}

TEST_F(CuptiNodesTest, PutsThePiecesOfANodeTogether) {
  in_a_process([] {
    std::string why;
    const auto watching = watch(&why);
    record_copy({1, 50, 60});
    record_copy({1, 10, 20});
    std::vector<std::string> notes;
    const std::vector<NodeTime> times = watching->take(&notes);
    REQUIRE(times.size() == 1);
    REQUIRE(is(times[0], template_node(1), "memcpy", 10, 60));
  });
}

TEST_F(CuptiNodesTest, TellsOfANodeThatTheTemplateHasNot) {
  in_a_process([] {
    std::string why;
    const auto watching = watch(&why);
    record_kernel({77, 1, 2});
    std::vector<std::string> notes;
    REQUIRE(is(watching->take(&notes).at(0), nullptr, "scale", 1, 2));
  });
}

const WatchedNodes with_inner = {.top = {{template_node(0), NodeType::kernel},
                                         {template_node(1), NodeType::conditional},
                                         {template_node(2), NodeType::kernel}},
                                 .inner = {{template_node(100), NodeType::kernel}}};

TEST_F(CuptiNodesTest, NodesWithinOthersHaveTheNumbersAfterThoseOfTheTemplate) {
  in_a_process([] {
    std::string why;
    const auto watching = watch_nodes_through_cupti(with_inner, exec, &why);
    record_kernel({0, 1, 2});
    record_kernel({3, 3, 4});
    record_kernel({2, 5, 6});
    std::vector<std::string> notes;
    const std::vector<NodeTime> times = watching->take(&notes);
    REQUIRE(times.size() == 3);
    REQUIRE(is(times[0], template_node(0), "scale", 1, 2));
    REQUIRE(is(times[1], template_node(100), "scale", 3, 4));
    REQUIRE(is(times[2], template_node(2), "scale", 5, 6));
  });
}

TEST_F(CuptiNodesTest, RunsOfANodeInALoopAreAddedUp) {
  in_a_process([] {
    std::string why;
    const auto watching = watch_nodes_through_cupti(with_inner, exec, &why);
    record_kernel({3, 4, 5, 0});  // of an earlier launch
    record_kernel({0, 10, 12});
    record_kernel({3, 20, 25, 0});
    record_kernel({3, 30, 37, 0});
    std::vector<std::string> notes;
    const std::vector<NodeTime> times = watching->take(&notes);
    REQUIRE(times.size() == 2 && times[0].runs == 1);
    REQUIRE(is(times[1], template_node(100), "scale", 20, 37));
    REQUIRE(times[1].runs == 2 && times[1].sum_ns == 12);
  });
}

TEST_F(CuptiNodesTest, SaysThatRecordsWereDropped) {
  setenv("FAKE_LIBCUPTI_DROPPED", "3", 1);
  in_a_process([] {
    std::string why;
    const auto watching = watch(&why);
    std::vector<std::string> notes;
    watching->take(&notes);
    REQUIRE(notes.size() == 1 && notes[0] == "CUPTI dropped 3 records: times of nodes are missing.");
  });
}

TEST_F(CuptiNodesTest, TheFirstWatchEnablesActivitiesAndTheLastDisablesThemAndUnsubscribes) {
  in_a_process([] {
    for (int i = 0; i < 2; ++i) {
      std::string why;
      auto first = watch(&why);
      REQUIRE(first != nullptr && has_subscriber() && enabled_kinds() == 4);
      auto second = watch_nodes_through_cupti({}, reinterpret_cast<GraphExecHandle>(std::uintptr_t{8}), &why);
      REQUIRE(second != nullptr);
      first.reset();
      REQUIRE(has_subscriber() && enabled_kinds() == 4);
      second.reset();
      REQUIRE(!has_subscriber() && enabled_kinds() == 0);
    }
  });
}

TEST_F(CuptiNodesTest, TwoWatchesEachGetTheNodesOfTheirExecutable) {
  in_a_process([] {
    std::string why;
    const auto first = watch(&why);
    const auto second = watch_nodes_through_cupti({}, reinterpret_cast<GraphExecHandle>(std::uintptr_t{8}), &why);
    record_kernel({0, 1, 2});
    record_kernel({0, 3, 4, 1, 8});
    std::vector<std::string> notes;
    const std::vector<NodeTime> of_second = second->take(&notes);  // delivers the records of both
    const std::vector<NodeTime> of_first = first->take(&notes);
    REQUIRE(of_first.size() == 1 && of_first[0].start_ns == 1);
    REQUIRE(of_second.size() == 1 && of_second[0].start_ns == 3);
  });
}

TEST_F(CuptiNodesTest, CanBeWatchedTogetherWithAllCalls) {
  in_a_process([] {
    std::string why;
    auto calls = watch_through_cupti(&why);
    auto nodes = watch(&why);
    REQUIRE(calls != nullptr && nodes != nullptr);
    const auto reports = find<bool (*)(CUpti_CallbackDomain)>("libcupti.so.13", "fake_cupti_reports");
    REQUIRE(reports(CUPTI_CB_DOMAIN_DRIVER_API) && reports(CUPTI_CB_DOMAIN_RUNTIME_API));
    calls.reset();
    REQUIRE(has_subscriber() && enabled_kinds() == 4);
    REQUIRE(!reports(CUPTI_CB_DOMAIN_DRIVER_API) && !reports(CUPTI_CB_DOMAIN_RUNTIME_API));
    calls = watch_through_cupti(&why);
    REQUIRE(calls != nullptr);
    nodes.reset();
    REQUIRE(has_subscriber() && enabled_kinds() == 0);
    calls.reset();
    REQUIRE(!has_subscriber());
  });
}

TEST_F(CuptiNodesTest, SaysThatAnotherToolHoldsTheSubscriberAndWhatToDo) {
  setenv("FAKE_LIBCUPTI_SUBSCRIBE", "39", 1);
  expect_reason(
      "Another tool holds CUPTI's subscriber, of which there is one in a process (a profiler, a debugger, `reprise "
      "explain`): nodes cannot be timed. Run the program without it, or time the nodes with that tool.");
}

TEST_F(CuptiNodesTest, SaysWhichActivityCannotBeEnabledAndLeavesNoneEnabled) {
  setenv("FAKE_LIBCUPTI_ACTIVITY", "35", 1);
  expect_reason("Nodes cannot be timed: cuptiActivityEnable of " FAKE_LIBCUPTI_DIRECTORY
                "/libcupti.so.13 returned 35 (CUPTI_ERROR_OF_A_TEST).");
  in_a_process([] {
    std::string why;
    REQUIRE(watch(&why) == nullptr);
    REQUIRE(!has_subscriber() && enabled_kinds() == 0);
  });
}

TEST_F(CuptiNodesTest, NamesAFunctionThatCuptiLacks) {
  setenv("LD_LIBRARY_PATH", FAKE_LIBCUDA_DIRECTORY ":" FAKE_LIBCUPTI_DIRECTORY "/no_activities", 1);
  expect_reason("Nodes cannot be timed: " FAKE_LIBCUPTI_DIRECTORY
                "/no_activities/libcupti.so.13 has no cuptiActivityRegisterCallbacks.");
}

// --- The ids of nodes -----------------------------------------------------------------------------------------------

bool cupti_is_loaded() {
  return dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

TEST_F(CuptiNodesTest, IdsComeFromALoadedCuptiThatAnotherToolHolds) {
  setenv("FAKE_LIBCUPTI_SUBSCRIBE", "39", 1);
  in_a_process([] {
    REQUIRE(!has_subscriber());  // loads it
    std::string why;
    const auto ids =
        node_ids_from_cupti({{template_node(0), NodeType::kernel}, {template_node(1), NodeType::memcpy}}, exec, &why);
    REQUIRE(ids && why.empty());
    REQUIRE(ids->exec == exec_number);
    REQUIRE(ids->nodes == (std::vector<std::uint64_t>{std::uint64_t{3} << 32U, (std::uint64_t{3} << 32U) + 1}));
  });
}

TEST_F(CuptiNodesTest, IdsLoadNoCupti) {
  in_a_process([] {
    std::string why;
    REQUIRE(!node_ids_from_cupti({{template_node(0), NodeType::kernel}}, exec, &why));
    REQUIRE(why == "CUPTI (libcupti.so.13) is not loaded in the process: load the profiler first");
    REQUIRE(!cupti_is_loaded());
  });
}

TEST_F(CuptiNodesTest, IdsNameAFunctionThatCuptiLacks) {
  setenv("LD_LIBRARY_PATH", FAKE_LIBCUDA_DIRECTORY ":" FAKE_LIBCUPTI_DIRECTORY "/no_activities", 1);
  in_a_process([] {
    REQUIRE(!has_subscriber());
    std::string why;
    REQUIRE(!node_ids_from_cupti({}, exec, &why));
    REQUIRE(why == FAKE_LIBCUPTI_DIRECTORY "/no_activities/libcupti.so.13 has no cuptiActivityRegisterCallbacks");
  });
}

}  // namespace
}  // namespace reprise::backend::cuda::test
