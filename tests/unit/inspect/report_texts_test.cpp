// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "backend/call.h"
#include "backend/monitor.h"
#include "backend/rules/cuda_calls.h"
#include "backend/rules/reported_call.h"
#include "inspect/report/report_findings.h"
#include "reprise/reprise.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// Each row of the table of capture rules that a call of the interface can meet: the situation is made with a real
// capture, the call is made, and its code, the rule and the advice are looked for in all reports of it.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::CallClass;
using backend::CaptureEffect;
using backend::CaptureRule;
using backend::Situation;
using reprise::test::Warnings;

// At least one call of each class. (Those of stream_unsafe and stream_batch are not in the interface.)
constexpr Call calls[] = {
    Call::memory_allocate,
    Call::set_async,
    Call::event_record,
    Call::graph_launch,
    Call::memory_allocate_async,
    Call::stream_flags,
    Call::stream_id,
    Call::stream_synchronize,
    Call::stream_query,
    Call::event_query,
    Call::event_synchronize,
    Call::stream_wait_event,
    Call::device_synchronize,
    Call::stream_is_capturing,
    Call::stream_capture_info,
    Call::stream_begin_capture,
    Call::stream_begin_capture_to_graph,
    Call::stream_update_capture_dependencies,
    Call::stream_end_capture,
};

// What came of a call.
struct Effect {
  ErrorCode result = ErrorCode::success;
  std::string detail;    // of the call's own failure
  CaptureReport report;  // of the capture
};

// A capture, and what a call can be given beside it.
class Scene {
 public:
  Scene(Situation situation, bool on_joined, ReportDetail detail)
      : situation_(situation), captured_(current_device(), {.blocking = situation == Situation::legacy_conflict}) {
    set_before();
    options_.report = detail;
    const StreamGuard guard(captured_);
    graph_.capture_begin(options_);
    work(captured_);
    set_during();
    if (on_joined && situation == Situation::stream_captures) stream_ = join();
  }
  ~Scene() {
    graph_.capture_abandon();
    CaptureStatus status = CaptureStatus::none;
    GraphHandle made = nullptr;
    EXPECT_EQ(runtime_.stream_is_capturing(side_.native(), &status), ErrorCode::success);
    if (status != CaptureStatus::none) (void)runtime_.stream_end_capture(side_.native(), &made);
    for (const GraphHandle graph : {made != template_ ? made : nullptr, template_, older_})
      if (graph != nullptr) {
        EXPECT_EQ(runtime_.graph_destroy(graph), ErrorCode::success);
      }
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Effect effect_of(Call call) {
    Effect found;
    const bool ends = call == Call::stream_end_capture && stream_ == captured_.native();
    if (ends && situation_ != Situation::wrong_thread) return effect_of_end();
    const auto make = [&] {
      const backend::Result result = make_call(call);
      found.result = result.code();
      found.detail = result.detail();
    };
    if (situation_ == Situation::wrong_thread)
      std::thread(make).join();
    else
      make();
    found.report = inspect::report_of(runtime_.monitor().describe_capture(captured_.native()));
    return found;
  }

 private:
  void work(const StreamRef& stream) {
    EXPECT_EQ(runtime_.set_async({x_.data(), 0, 1, 4}, stream.native()), ErrorCode::success);
  }
  void record(const Stream& stream) { event_.record(stream); }
  // `side_` takes part from now on.
  StreamHandle join() {
    side_.wait(captured_.ref());
    work(side_);
    return side_.native();
  }
  void capture_on_side() {
    EXPECT_EQ(runtime_.stream_begin_capture(side_.native(), CaptureMode::thread), ErrorCode::success);
    record(side_);
  }

  void set_before() {
    capture_increment(inner_, x_);
    exec_ = inner_.raw_cuda_graph_exec();
    if (situation_ == Situation::event_outside) record(side_);
    if (situation_ == Situation::event_of_ended_capture) {
      capture_on_side();
      EXPECT_EQ(runtime_.stream_end_capture(side_.native(), &older_), ErrorCode::success);
    }
    EXPECT_EQ(runtime_.graph_create(&template_), ErrorCode::success);
  }

  void set_during() {
    stream_ = captured_.native();
    switch (situation_) {
      case Situation::stream_invalidated:
        EXPECT_EQ(make_unsafe_call(), ErrorCode::stream_capture_unsupported);
        break;
      case Situation::stream_is_legacy:
      case Situation::legacy_conflict:
        stream_ = nullptr;
        break;
      case Situation::legacy_waits_for_capture:
        stream_ = nullptr;
        [[fallthrough]];
      case Situation::event_captured:
        record(captured_);
        break;
      case Situation::stream_is_not_origin:
        stream_ = join();
        break;
      case Situation::fork_not_joined:
        join();
        break;
      case Situation::external_without_capture:
        use_ = backend::EventUseFlags::external;
        [[fallthrough]];
      case Situation::stream_does_not_capture:
      case Situation::thread_forbids:
        stream_ = side_.native();
        break;
      case Situation::graph_is_captured_to:
        EXPECT_EQ(runtime_.stream_begin_capture_to_graph(side_.native(), template_, {}, CaptureMode::thread),
                  ErrorCode::success);
        stream_ = third_.native();
        break;
      case Situation::event_invalidated:
        capture_on_side();
        EXPECT_EQ(runtime_.stream_query(side_.native()), ErrorCode::stream_capture_unsupported);
        break;
      case Situation::other_capture:
        capture_on_side();
        break;
      default:
        break;
    }
  }

  backend::Result make_call(Call call) {
    void* memory = nullptr;
    backend::StreamFlags flags{};
    std::uint64_t id = 0;
    CaptureStatus status{};
    backend::CaptureInfo info;
    GraphHandle graph = nullptr;
    constexpr auto mode = CaptureMode::relaxed;
    switch (call) {
      case Call::memory_allocate:
        return runtime_.memory_allocate(&memory, 512);
      case Call::set_async:
        return runtime_.set_async({x_.data(), 0, 1, 4}, stream_);
      case Call::event_record:
        return runtime_.event_record(event_.native(), stream_, use_);
      case Call::graph_launch:
        return runtime_.graph_launch(exec_, stream_);
      case Call::memory_allocate_async:
        return runtime_.memory_allocate_async(&memory, 512, stream_);
      case Call::stream_flags:
        return runtime_.stream_flags(stream_, &flags);
      case Call::stream_id:
        return runtime_.stream_id(stream_, &id);
      case Call::stream_synchronize:
        return runtime_.stream_synchronize(stream_);
      case Call::stream_query:
        return runtime_.stream_query(stream_);
      case Call::event_query:
        return runtime_.event_query(event_.native());
      case Call::event_synchronize:
        return runtime_.event_synchronize(event_.native());
      case Call::stream_wait_event:
        return runtime_.stream_wait_event(stream_, event_.native(), use_);
      case Call::device_synchronize:
        return runtime_.device_synchronize();
      case Call::stream_is_capturing:
        return runtime_.stream_is_capturing(stream_, &status);
      case Call::stream_capture_info:
        return runtime_.stream_capture_info(stream_, &info);
      case Call::stream_begin_capture:
        return runtime_.stream_begin_capture(stream_, mode);
      case Call::stream_begin_capture_to_graph:
        return runtime_.stream_begin_capture_to_graph(stream_, template_, {}, mode);
      case Call::stream_update_capture_dependencies:
        return runtime_.stream_update_capture_dependencies(stream_, {}, backend::UpdateDependencies::add);
      case Call::stream_end_capture:
        return runtime_.stream_end_capture(stream_, &graph);
      default:
        ADD_FAILURE() << "the scene does not know how to make the call";
        return ErrorCode::success;
    }
  }

  Effect effect_of_end() {
    const StreamGuard guard(captured_);
    try {
      graph_.capture_end();
      return {};
    } catch (const CaptureError& error) {
      return {error.code(), error.what(), error.report()};
    }
  }

  const Situation situation_;
  backend::Backend& runtime_ = default_device().backend();
  Buffer<int> x_ = zeros();
  Stream captured_, side_, third_;
  Event event_;
  CUDAGraph graph_, inner_;
  GraphOptions options_;
  GraphHandle template_ = nullptr, older_ = nullptr;
  GraphExecHandle exec_ = nullptr;
  // What the call is given.
  StreamHandle stream_ = nullptr;
  backend::EventUseFlags use_ = backend::EventUseFlags::ordering;
};

// True if a call can be in the situation of a row of its class.
bool can_be_in(Call call, Situation situation) {
  switch (situation) {
    case Situation::external_without_capture:
      return call == Call::event_record || call == Call::stream_wait_event;
    case Situation::graph_is_captured_to:
      return call == Call::stream_begin_capture_to_graph;
    default:
      return true;
  }
}

void expect_call(const CaptureReport& report, const CaptureReport::Call& reported, Call call, const CaptureRule& rule) {
  EXPECT_TRUE(contains(reported.name, cuda_name(call)));  // CUPTI's names have versions
  EXPECT_EQ(reported.result, rule.result);
  EXPECT_EQ(reported.rule, rule.sentence);
  EXPECT_EQ(reported.advice, rule.advice);
  EXPECT_TRUE(contains(report.str(), rule.sentence));
  EXPECT_TRUE(contains(report.str(), rule.advice));
}

class ReportTexts : public ::testing::TestWithParam<ReportDetail> {
 protected:
  void SetUp() override {
    std::string why;
    if (GetParam() == ReportDetail::full && default_device().backend().monitor().watch_calls(&why) == nullptr)
      GTEST_SKIP() << why;
  }

  void expect_reported(const CaptureRule& rule, Call call, const Effect& found) {
    EXPECT_EQ(found.result, rule.result);
    const bool on_host = default_device().type() == DeviceType::host;
    const bool full = GetParam() == ReportDetail::full;
    if (on_host && rule.result == ErrorCode::stream_capture_invalidated) {
      EXPECT_TRUE(contains(found.detail, "the call that broke the capture: cuMemAlloc returned 900"));
    } else if (on_host) {  // elsewhere it is the driver's own text
      EXPECT_TRUE(contains(found.detail, rule.sentence));
      EXPECT_TRUE(contains(found.detail, rule.advice));
    }
    const CaptureReport& report = found.report;
    if (rule.situation == Situation::stream_invalidated) {
      ASSERT_TRUE(report.broken_by.has_value());
      EXPECT_TRUE(contains(report.broken_by->name, "cuMemAlloc")) << "a consequence is not the reason";
    } else if (rule.situation == Situation::wrong_thread && (on_host || !full)) {
      // The capture is over, and the object that had begun it was not queried.
    } else if (rule.effect != CaptureEffect::none) {
      ASSERT_TRUE(report.broken_by.has_value());
      expect_call(report, *report.broken_by, call, rule);
    } else {
      EXPECT_FALSE(report.broken_by.has_value());
      // A question's answer is nothing that is missing; an invalid argument is that, and no matter of captures.
      if (!full || rule.call_class == CallClass::capture_query || !backend::is_about_captures(rule.result)) return;
      ASSERT_EQ(report.refused.size(), 1u);
      expect_call(report, report.refused[0], call, rule);
    }
  }
};

TEST_P(ReportTexts, HaveTheRuleAndTheAdviceOfEveryRowOfTheTable) {
  const Warnings warnings;  // graphs that are not destroyed, for one
  for (const Call call : calls)
    for (const CaptureRule& rule : rules_of(class_of(call)))
      for (const bool on_joined : {false, true}) {
        if (!can_be_in(call, rule.situation)) continue;
        if (on_joined && rule.situation != Situation::stream_captures) continue;
        SCOPED_TRACE(std::string(cuda_name(call)) + (on_joined ? " (of a joined stream): " : ": ") + rule.sentence);
        Scene scene(rule.situation, on_joined, GetParam());
        expect_reported(rule, call, scene.effect_of(call));
      }
  EXPECT_TRUE(warnings.texts().empty()) << warnings.texts().front();
}

std::string name_of(const ::testing::TestParamInfo<ReportDetail>& detail) {
  return detail.param == ReportDetail::full ? "full" : "standard";
}
INSTANTIATE_TEST_SUITE_P(With, ReportTexts, ::testing::Values(ReportDetail::standard, ReportDetail::full), name_of);

TEST(ReportTextsProgram, MakesACallOfEachClassOfTheInterface) {
  const auto classes_of = [](const auto& some) {
    std::set<CallClass> classes;
    for (const Call call : some) classes.insert(class_of(call));
    classes.erase(CallClass::always_allowed);
    return classes;
  };
  std::vector<Call> all;
  for (int i = 0; i < backend::call_count; ++i) all.push_back(static_cast<Call>(i));
  EXPECT_EQ(classes_of(calls), classes_of(all));
}

}  // namespace
}  // namespace reprise::graphs::test
