// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/capture_rules.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace reprise::backend {
namespace {

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
    "call it before the capture (the first use of a library: by GraphOptions::warmup, or by running the work once), or "
    "put the calling thread into relaxed mode, or capture in mode `thread` when other threads make such calls"};
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
    "wait before the capture (the first use of a library: by GraphOptions::warmup, or by running the work once), or "
    "wait "
    "for single streams and events"};
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
constexpr auto rules_table = [] {
  using enum CallClass;
  using enum Situation;
  using enum ErrorCode;
  using enum CaptureEffect;
  return std::to_array<CaptureRule>({
      rule(potentially_unsafe, thread_forbids, stream_capture_unsupported, invalidated, unsafe),

      rule(stream_work, stream_invalidated, stream_capture_invalidated, none, broken_before),
      rule(stream_work, legacy_conflict, stream_capture_implicit, invalidated, legacy),
      rule(stream_work, external_without_capture, illegal_state, none, external),

      rule(stream_launch_only, stream_invalidated, stream_capture_unsupported, none, launches),
      rule(stream_launch_only, stream_captures, stream_capture_unsupported, invalidated, launches),
      rule(stream_launch_only, legacy_conflict, stream_capture_implicit, invalidated, legacy),

      rule(stream_unsafe, stream_invalidated, stream_capture_unsupported, none, no_node),
      rule(stream_unsafe, stream_captures, stream_capture_unsupported, invalidated, no_node),
      rule(stream_unsafe, legacy_conflict, stream_capture_implicit, invalidated, legacy),
      rule(stream_unsafe, thread_forbids, stream_capture_unsupported, invalidated, unsafe),

      rule(stream_batch, stream_invalidated, stream_capture_invalidated, none, broken_before),
      rule(stream_batch, stream_captures, stream_capture_unsupported, none, batches),
      rule(stream_batch, legacy_conflict, stream_capture_implicit, invalidated, legacy),

      rule(stream_allocation, stream_invalidated, stream_capture_invalidated, none, broken_before),
      rule(stream_allocation, legacy_conflict, stream_capture_implicit, invalidated, legacy),
      rule(stream_allocation, thread_forbids, stream_capture_unsupported, invalidated, unsafe),

      rule(stream_property, stream_invalidated, stream_capture_unsupported, none, property),
      rule(stream_property, stream_captures, stream_capture_unsupported, invalidated, property),
      rule(stream_property, legacy_conflict, stream_capture_implicit, invalidated, legacy),

      rule(stream_wait, stream_invalidated, stream_capture_unsupported, none, waits),
      rule(stream_wait, stream_captures, stream_capture_unsupported, invalidated, waits),
      rule(stream_wait, legacy_conflict, stream_capture_implicit, invalidated, legacy),
      rule(stream_wait, thread_forbids, stream_capture_unsupported, invalidated, unsafe),

      rule(event_wait, event_captured, captured_event, invalidated, event_in_capture),
      rule(event_wait, event_invalidated, invalid_value, none, event_means_nothing),
      rule(event_wait, event_of_ended_capture, invalid_value, none, event_means_nothing),
      rule(event_wait, thread_forbids, stream_capture_unsupported, invalidated, unsafe),

      rule(join, stream_invalidated, stream_capture_invalidated, none, broken_before),
      rule(join, legacy_conflict, stream_capture_implicit, invalidated, legacy_cannot_join),
      rule(join, event_invalidated, invalid_value, invalidated, event_means_nothing),
      rule(join, event_of_ended_capture, invalid_value, invalidated, event_means_nothing),
      rule(join, external_without_capture, illegal_state, none, external),
      rule(join, legacy_waits_for_capture, stream_capture_implicit, invalidated, legacy_cannot_join),
      rule(join, other_capture, stream_capture_merge, invalidated, two_captures),
      rule(join, event_outside, stream_capture_isolation, invalidated, outside),

      rule(device_wait, device_captures, stream_capture_unsupported, invalidated, waits_for_device),

      rule(capture_query, legacy_conflict, stream_capture_implicit, none, legacy),

      rule(capture_begin, legacy_conflict, stream_capture_implicit, invalidated, legacy),
      rule(capture_begin, stream_is_legacy, stream_capture_unsupported, none, legacy_cannot_capture),
      rule(capture_begin, stream_invalidated, illegal_state, none, captures_already),
      rule(capture_begin, stream_captures, illegal_state, none, captures_already),
      rule(capture_begin, graph_is_captured_to, illegal_state, none, graph_is_taken),

      rule(capture_update, legacy_conflict, stream_capture_implicit, invalidated, legacy),
      rule(capture_update, stream_does_not_capture, illegal_state, none, no_capture),
      rule(capture_update, stream_invalidated, stream_capture_invalidated, none, broken_before),

      rule(capture_end, legacy_conflict, stream_capture_implicit, invalidated, legacy),
      rule(capture_end, stream_does_not_capture, illegal_state, none, no_capture),
      rule(capture_end, stream_is_not_origin, stream_capture_unmatched, invalidated, not_origin),
      rule(capture_end, stream_invalidated, stream_capture_invalidated, ended, broken_end),
      rule(capture_end, fork_not_joined, stream_capture_unjoined, ended, unjoined),
      rule(capture_end, wrong_thread, stream_capture_wrong_thread, ended, wrong_end),
  });
}();

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
