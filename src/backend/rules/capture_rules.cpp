// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/capture_rules.h"

#include <algorithm>
#include <iterator>

namespace reprise::backend {
namespace {

constexpr auto invalidated = CaptureEffect::invalidated;
constexpr auto ended = CaptureEffect::ended;
constexpr auto none = CaptureEffect::none;

// The rule in a sentence, and what to do instead.
struct RuleText {
  const char* sentence;
  const char* advice;
};
constexpr RuleText broken_before = {
    "the stream takes part in a capture that was broken by an earlier call; it can only be ended",
    "end the capture, fix the call that broke it, and capture again"};
constexpr RuleText legacy = {
    "the legacy default stream waits for every blocking stream, and one of them is being captured",
    "submit the work to the captured stream or to one that was forked off it; what is not meant for the graph, to "
    "another stream that is not the default"};
constexpr RuleText unsafe = {
    "this call is potentially unsafe during a capture (it may wait for the device, or change what a replay relies on)",
    "call it before the capture, or put the calling thread into relaxed mode, or capture in mode `thread` when "
    "other threads make such calls"};
constexpr RuleText waits = {"a stream that is being captured does not execute, so it cannot be synchronized or queried",
                            "read results after a replay; before the capture, wait for what it needs"};
constexpr RuleText launches = {
    "a launch of an executable graph, and other work without a node type, cannot be captured",
    "call it before or after the capture; a graph becomes a child graph node, and for a callback there is "
    "cudaLaunchHostFunc"};
constexpr RuleText no_node = {"this call has no node type, so it cannot be captured",
                              "call it before or after the capture"};
constexpr RuleText batches = {"a batch of copies cannot be captured; the capture continues, and lacks the copies",
                              "check its result, and submit the copies one by one"};
constexpr RuleText property = {"the id and the flags of a stream that is being captured cannot be queried",
                               "query them before the capture"};
constexpr RuleText event_in_capture = {
    "the event was last recorded in a capture, where it is a point of the graph; it cannot be synchronized or "
    "queried",
    "record it with the external flag to wait for it on the host at each replay, or wait for the replay"};
constexpr RuleText event_means_nothing = {
    "the event was last recorded in a capture that is over or was broken by an earlier call",
    "record it again before it is used"};
constexpr RuleText external = {
    "the external flag makes a node of its own of a record or a wait, which only a stream that is being captured can "
    "do",
    "remove the flag outside of captures"};
// CUDA returns the same code for both reasons.
constexpr RuleText legacy_cannot_join = {
    "the legacy default stream cannot join a capture, and cannot be used at all while a blocking stream captures",
    "let another stream wait for the event, and submit the work there"};
constexpr RuleText two_captures = {"the stream and the event take part in two captures, which would become one",
                                   "end the one before the other needs its work, or capture both as one"};
constexpr RuleText outside = {
    "a captured stream cannot wait for an event that was recorded outside of its capture",
    "begin the capture after the wait, or wait with the external flag to make an event wait node"};
constexpr RuleText waits_for_device = {
    "waiting for the device waits for every stream, and one of them is being captured",
    "wait before the capture, or wait for single streams and events"};
constexpr RuleText legacy_cannot_capture = {"the legacy default stream cannot be captured", "use another stream"};
constexpr RuleText captures_already = {"the stream takes part in a capture already",
                                       "end that one first, or capture another stream"};
constexpr RuleText graph_is_taken = {"another capture adds to this graph", "end that one first"};
constexpr RuleText no_capture = {"the stream is not being captured",
                                 "call it between the beginning and the end of one"};
constexpr RuleText not_origin = {"a capture ends on the stream that it began on, not on one that joined it",
                                 "end it on that stream"};
constexpr RuleText wrong_end = {"a capture that is not in relaxed mode ends on the thread that began it",
                                "end it there, or begin it in mode relaxed"};
constexpr RuleText broken_end = {"the capture was broken by an earlier call", "fix the call that broke it"};
constexpr RuleText unjoined = {
    "work of a stream that joined the capture does not lead back to the stream that it began on",
    "record an event after the last work of each stream that was forked off, and make the first stream wait for it "
    "before the end"};

// The row of a class in a situation.
constexpr CaptureRule rule(CallClass call_class, Situation situation, ErrorCode result, CaptureEffect effect,
                           const RuleText& text) {
  return {call_class, situation, result, effect, text.sentence, text.advice};
}

// Sorted by class; within a class the first situation that holds counts.
constexpr CaptureRule rules_table[] = {
    rule(CallClass::potentially_unsafe, Situation::thread_forbids, ErrorCode::stream_capture_unsupported, invalidated,
         unsafe),

    rule(CallClass::stream_work, Situation::stream_invalidated, ErrorCode::stream_capture_invalidated, none,
         broken_before),
    rule(CallClass::stream_work, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated, legacy),
    rule(CallClass::stream_work, Situation::external_without_capture, ErrorCode::illegal_state, none, external),

    rule(CallClass::stream_launch_only, Situation::stream_invalidated, ErrorCode::stream_capture_unsupported, none,
         launches),
    rule(CallClass::stream_launch_only, Situation::stream_captures, ErrorCode::stream_capture_unsupported, invalidated,
         launches),
    rule(CallClass::stream_launch_only, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated,
         legacy),

    rule(CallClass::stream_unsafe, Situation::stream_invalidated, ErrorCode::stream_capture_unsupported, none, no_node),
    rule(CallClass::stream_unsafe, Situation::stream_captures, ErrorCode::stream_capture_unsupported, invalidated,
         no_node),
    rule(CallClass::stream_unsafe, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated, legacy),
    rule(CallClass::stream_unsafe, Situation::thread_forbids, ErrorCode::stream_capture_unsupported, invalidated,
         unsafe),

    rule(CallClass::stream_batch, Situation::stream_invalidated, ErrorCode::stream_capture_invalidated, none,
         broken_before),
    rule(CallClass::stream_batch, Situation::stream_captures, ErrorCode::stream_capture_unsupported, none, batches),
    rule(CallClass::stream_batch, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated, legacy),

    rule(CallClass::stream_allocation, Situation::stream_invalidated, ErrorCode::stream_capture_invalidated, none,
         broken_before),
    rule(CallClass::stream_allocation, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated,
         legacy),
    rule(CallClass::stream_allocation, Situation::thread_forbids, ErrorCode::stream_capture_unsupported, invalidated,
         unsafe),

    rule(CallClass::stream_property, Situation::stream_invalidated, ErrorCode::stream_capture_unsupported, none,
         property),
    rule(CallClass::stream_property, Situation::stream_captures, ErrorCode::stream_capture_unsupported, invalidated,
         property),
    rule(CallClass::stream_property, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated,
         legacy),

    rule(CallClass::stream_wait, Situation::stream_invalidated, ErrorCode::stream_capture_unsupported, none, waits),
    rule(CallClass::stream_wait, Situation::stream_captures, ErrorCode::stream_capture_unsupported, invalidated, waits),
    rule(CallClass::stream_wait, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated, legacy),
    rule(CallClass::stream_wait, Situation::thread_forbids, ErrorCode::stream_capture_unsupported, invalidated, unsafe),

    rule(CallClass::event_wait, Situation::event_captured, ErrorCode::captured_event, invalidated, event_in_capture),
    rule(CallClass::event_wait, Situation::event_invalidated, ErrorCode::invalid_value, none, event_means_nothing),
    rule(CallClass::event_wait, Situation::event_of_ended_capture, ErrorCode::invalid_value, none, event_means_nothing),
    rule(CallClass::event_wait, Situation::thread_forbids, ErrorCode::stream_capture_unsupported, invalidated, unsafe),

    rule(CallClass::join, Situation::stream_invalidated, ErrorCode::stream_capture_invalidated, none, broken_before),
    rule(CallClass::join, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated,
         legacy_cannot_join),
    rule(CallClass::join, Situation::event_invalidated, ErrorCode::invalid_value, invalidated, event_means_nothing),
    rule(CallClass::join, Situation::event_of_ended_capture, ErrorCode::invalid_value, invalidated,
         event_means_nothing),
    rule(CallClass::join, Situation::external_without_capture, ErrorCode::illegal_state, none, external),
    rule(CallClass::join, Situation::legacy_waits_for_capture, ErrorCode::stream_capture_implicit, invalidated,
         legacy_cannot_join),
    rule(CallClass::join, Situation::other_capture, ErrorCode::stream_capture_merge, invalidated, two_captures),
    rule(CallClass::join, Situation::event_outside, ErrorCode::stream_capture_isolation, invalidated, outside),

    rule(CallClass::device_wait, Situation::device_captures, ErrorCode::stream_capture_unsupported, invalidated,
         waits_for_device),

    rule(CallClass::capture_query, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, none, legacy),

    rule(CallClass::capture_begin, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated, legacy),
    rule(CallClass::capture_begin, Situation::stream_is_legacy, ErrorCode::stream_capture_unsupported, none,
         legacy_cannot_capture),
    rule(CallClass::capture_begin, Situation::stream_invalidated, ErrorCode::illegal_state, none, captures_already),
    rule(CallClass::capture_begin, Situation::stream_captures, ErrorCode::illegal_state, none, captures_already),
    rule(CallClass::capture_begin, Situation::graph_is_captured_to, ErrorCode::illegal_state, none, graph_is_taken),

    rule(CallClass::capture_update, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated,
         legacy),
    rule(CallClass::capture_update, Situation::stream_does_not_capture, ErrorCode::illegal_state, none, no_capture),
    rule(CallClass::capture_update, Situation::stream_invalidated, ErrorCode::stream_capture_invalidated, none,
         broken_before),

    rule(CallClass::capture_end, Situation::legacy_conflict, ErrorCode::stream_capture_implicit, invalidated, legacy),
    rule(CallClass::capture_end, Situation::stream_does_not_capture, ErrorCode::illegal_state, none, no_capture),
    rule(CallClass::capture_end, Situation::stream_is_not_origin, ErrorCode::stream_capture_unmatched, invalidated,
         not_origin),
    rule(CallClass::capture_end, Situation::stream_invalidated, ErrorCode::stream_capture_invalidated, ended,
         broken_end),
    rule(CallClass::capture_end, Situation::fork_not_joined, ErrorCode::stream_capture_unjoined, ended, unjoined),
    rule(CallClass::capture_end, Situation::wrong_thread, ErrorCode::stream_capture_wrong_thread, ended, wrong_end),
};

}  // namespace

const CaptureRule* rule_met(std::optional<CallClass> call_class, ErrorCode result, bool on_capture) noexcept {
  const CaptureRule* fallback = nullptr;
  for (const CaptureRule& rule : rules_table) {
    if (rule.result != result || (call_class && rule.call_class != *call_class)) continue;
    const bool of_others =
        rule.situation == Situation::thread_forbids || rule.situation == Situation::graph_is_captured_to;
    if (!call_class || of_others != on_capture) return &rule;
    if (fallback == nullptr) fallback = &rule;
  }
  return fallback != nullptr || !call_class ? fallback : rule_met(std::nullopt, result, on_capture);
}

std::span<const CaptureRule> rules_of(CallClass call_class) noexcept {
  const auto belongs = [&](const CaptureRule& rule) { return rule.call_class == call_class; };
  const auto* const first = std::find_if(std::begin(rules_table), std::end(rules_table), belongs);
  const auto* const last = std::find_if_not(first, std::end(rules_table), belongs);
  return {first, last};
}

}  // namespace reprise::backend
