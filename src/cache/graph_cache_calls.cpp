// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "backend/capture_query.h"
#include "cache/graph_cache_impl.h"
#include "text/format.h"

namespace reprise {

using caches::CaptureFailed;
using caches::Entry;

std::string GraphCache::Impl::key_text(const CacheKey& key) const {
  return key.str(options.key_fields) + (options.name.empty() ? "" : " of cache `" + options.name + "`");
}

namespace {

// The call fails with the error of the freed input.
void keep_from_eager_run(CaptureFailed& failure) try {
  std::rethrow_exception(failure.freed_input);
} catch (const DeadInputError& error) {
  failure.failure.what = text::format(
      "{}The body allocated memory in the capture, and the program has it instead. Nothing has computed what lies "
      "there, so that the body was not run eagerly. Have it write to the memory that it used before, and give that its "
      "values again; or call it without the cache. The key runs eagerly until forget().",
      error.what());
  failure.after_effects = std::make_exception_ptr(DeadInputError(failure.failure.what, error.inputs()));
}

}  // namespace

void GraphCache::Impl::Lock::refuse(const char* name) {
  throw UsageError(
      text::format("{} was called within a body that the same cache captures, or in a hook of its graphs. Call it "
                   "outside, or use another cache there.",
                   name));
}

template <class Capture>
auto GraphCache::Impl::watching_state(const Capture& capture) {
  const std::uint64_t before = used_pool_bytes();
  try {
    return capture();
  } catch (CaptureFailed& failure) {
    if (failure.freed_input != nullptr && failure.after_effects == nullptr && used_pool_bytes() > before)
      keep_from_eager_run(failure);
    throw;
  }
}

namespace {

[[noreturn]] void refuse_in_capture(const char* name) {
  throw UsageError(
      text::format("{} expected a current stream that is not being captured; found one that is. A cache captures and "
                   "replays itself: call its body directly within a capture, or the cache outside of it.",
                   name));
}

void require_function(const caches::Call& call, const char* name) {
  if (call.body.identity().is_empty())
    throw UsageError(text::format("{} expected a body; found an empty std::function, or a null pointer.", name));
}

}  // namespace

// Functions of a hit are [[gnu::hot]], here and in other files, as those of a replay are.
[[gnu::hot]] StreamRef GraphCache::Impl::require_outside_of_captures(const char* name) const {
  const StreamRef stream = current_stream(shared.device);
  if (backend::capture_status(stream, name) != CaptureStatus::none) [[unlikely]]
    refuse_in_capture(name);
  return stream;
}

[[gnu::hot]] cache_detail::Outcome GraphCache::Impl::run(const Call& call) {
  constexpr const char* name = "GraphCache::run";
  const StreamRef stream = require_outside_of_captures(name);
  Lock lock(*this, name);
  if (has_leftovers) [[unlikely]]
    release_leftovers();
  Outcome outcome;
  Record* const record = records.find(call.key);
  if (record != nullptr && record->entry != nullptr) [[likely]] {
    if (replay(*record, call, stream, outcome)) [[likely]] {
      ++hits;
      return outcome;
    }
  } else {
    require_function(call, name);
    if (may_capture(call.key, record) && capture_and_replay(call, stream, outcome)) return outcome;
  }
  outcome = run_eagerly(lock, call, stream);
  return outcome;
}

[[gnu::hot]] inline bool GraphCache::Impl::replay(Record& record, const Call& call, const StreamRef& stream,
                                                  Outcome& outcome) {
  Entry& entry = *record.entry;
  entry.require_fits(call, "GraphCache::run");
  if (check_every != 0 && (record.hits + 1) % check_every == 0 && entry.can_be_checked()) [[unlikely]] {
    if (!check(record, call)) return false;
  }
  const bool same_stream = shared.last_launch.was_on(stream);
  if ((!same_stream && !shared.last_launch.order_before(stream)) || !entry.order_behind_readers(stream)) [[unlikely]] {
    cause = EagerCause::unordered;
    failed.reset();
    return false;
  }
  ++record.hits;
  note_use(record);
  if (same_stream && entry.launch_plain(stream)) return true;
  outcome = entry.launch(stream, call);
  if (entry.take_grown()) [[unlikely]]
    keep_within_bytes(record, entry.bytes());
  return true;
}

// Releases the entry if the body does other work now. If the body cannot be captured, run_eagerly() releases the entry,
// after a run that succeeds: an error of the body itself is the caller's, and changes nothing.
bool GraphCache::Impl::check(Record& record, const Call& call) {
  const Clock::time_point begin = Clock::now();
  ++pool_captures;
  std::string differences;
  try {
    differences = watching_state([&] { return record.entry->check(call); });
  } catch (CaptureFailed& failure) {
    if (failure.by_others && failure.after_effects == nullptr) return true;  // the next check has its turn
    failed = std::make_shared<const CacheFailure>(std::move(failure.failure));
    cause = EagerCause::failed;
    if (failure.after_effects == nullptr) return false;
    record.failure = std::exchange(failed, nullptr);
    release(record);
    std::rethrow_exception(failure.after_effects);
  }
  count(counts.checks, begin);
  if (differences.empty()) return true;
  const std::string what = text::format(
      "GraphCache::run: expected that the body of key {} is always captured as the same graph; found another one "
      "in replay {}, which would repeat the first:\n{}Add what these values depend on to the key, pass memory "
      "that moves among the inputs, or keep it in one place. The key runs eagerly until forget().",
      key_text(record.key), record.hits + 1, differences);
  record.failure = std::make_shared<const CacheFailure>(CacheFailure{what});
  release(record);
  throw UsageError(what);
}

bool GraphCache::Impl::may_capture(const CacheKey& key, const Record* record) {
  cause = EagerCause::counted;
  failed.reset();
  if (record == nullptr) {
    if (options.capture_after != 0) return false;
    if (!may_be_forgotten()) return true;
    if (records.entries() != 0) warn_of_thrashing(key, has_control_flow);
    if (has_control_flow) return true;
    cause = EagerCause::thrashing;
    return false;
  }
  if (record->failure != nullptr) {
    if (record->needs_capture) refuse_eager_run(*record);
    cause = record->too_large ? EagerCause::too_large : EagerCause::failed;
    return false;
  }
  if (record->needs_capture) {
    if (would_thrash(*record)) warn_of_thrashing(key, /*needs_capture=*/true);
    return true;
  }
  const std::size_t waits = record->breaks == 0 ? 0 : (std::size_t{1} << (record->breaks - 1)) - 1;
  if (record->calls < options.capture_after + waits) return false;
  if (record->wait == 0 && !would_thrash(*record)) return true;
  cause = EagerCause::thrashing;
  warn_of_thrashing(key, /*needs_capture=*/false);
  return false;
}

void GraphCache::Impl::refuse_eager_run(const Record& record) const {
  throw UsageError(
      text::format("GraphCache::run: key {} has no graph, and a body with control flow does not run eagerly. It "
                   "has none because of this: {}",
                   key_text(record.key), record.failure->what));
}

bool GraphCache::Impl::note_broken(const CacheKey& key) {
  constexpr unsigned most_breaks = 10;
  Record& record = records.find_or_add(key);
  record.calls = options.capture_after;
  return ++record.breaks < most_breaks;
}

std::shared_ptr<Entry> GraphCache::Impl::capture(const Call& call, const StreamRef* run) try {
  // Set while the capture is underway: it may fail with any exception.
  const bool had_leftovers = std::exchange(has_leftovers, has_leftovers || run != nullptr);
  // A framework refuses a pool in which a result of a released entry still lives.
  if (shared.captured_themselves && records.entries() == 0 && pool_captures > 0) begin_pool();
  ++pool_captures;
  pool_before = pool_bytes();
  auto made = watching_state([&] { return std::make_shared<Entry>(shared, call, key_text(call.key), run); });
  has_leftovers = had_leftovers;
  return made;
} catch (const Error& error) {  // around the capture: no memory for the inputs, for example
  throw CaptureFailed{.failure = {error.what()}, .missing = caches::missing_memory(error)};
}

std::shared_ptr<Entry> GraphCache::Impl::capture_in_room(const Call& call, const StreamRef& stream) {
  try {
    return capture(call, &stream);
  } catch (const CaptureFailed& failure) {
    if (failure.missing == 0 || failure.after_effects != nullptr) throw;
    if (!release_idle(records.find(call.key), failure.missing)) throw;
  }
  return capture(call, &stream);
}

namespace {

// True if the body has had its effect, although nothing was captured: it did nothing, or other code's work went to a
// stream that is not captured, and was executed at once. Work on inputs would have been done on memory of the entry.
bool is_done(const CaptureFailed& failure, const caches::Call& call) {
  return failure.empty && call.body.returns() == typeid(void) &&
         std::ranges::all_of(call.inputs, [](const caches::InputMemory& each) { return each.bytes == 0; });
}

}  // namespace

bool GraphCache::Impl::capture_and_replay(const Call& call, const StreamRef& stream, Outcome& outcome) {
  const Clock::time_point begin = Clock::now();
  if (!shared.last_launch.order_before(stream)) {
    cause = EagerCause::unordered;
    return false;
  }
  std::shared_ptr<Entry> entry;
  try {
    entry = capture_in_room(call, stream);
  } catch (CaptureFailed& failure) {
    if (failure.of_part) std::rethrow_exception(failure.after_effects);
    failed = std::make_shared<const CacheFailure>(std::move(failure.failure));
    cause = EagerCause::failed;
    count(counts.failed_captures, begin);
    if (failure.by_others && note_broken(call.key)) {
      failed.reset();
      if (failure.after_effects != nullptr) std::rethrow_exception(failure.after_effects);
      return false;
    }
    if (failure.after_effects == nullptr && !is_done(failure, call)) return false;
    Record& record = records.find_or_add(call.key);
    record.failure = std::exchange(failed, nullptr);
    if (failure.after_effects != nullptr) std::rethrow_exception(failure.after_effects);
    count(counts.eager, begin);
    ++counts.eager_by_cause[static_cast<std::size_t>(cause)];
    note_use(record);
    return true;
  }
  const std::uint64_t added = added_bytes(*entry);
  if (added > max_bytes && !entry->has_begun()) {
    const bool needs_capture = entry->needs_capture();
    discard(entry);
    failed = too_large(call.key, added);
    cause = EagerCause::too_large;
    count(counts.failed_captures, begin);
    if (!needs_capture) return false;
    Record& record = records.find_or_add(call.key);
    record.failure = std::exchange(failed, nullptr);
    record.too_large = record.needs_capture = true;
    refuse_eager_run(record);
  }
  outcome = entry->launch(stream, call);
  count_recapture(records.find_or_add(call.key));
  count(counts.captures, begin);
  make_room();  // now that nothing fails any more
  Record& record = records.find_or_add(call.key);
  const bool is_new = !record.evicted;
  set_entry(record, std::move(entry));
  note_use(record);
  keep_within_bytes(record, added);
  if (is_new) warn_if_unsettled();
  return true;
}

void GraphCache::Impl::set_entry(Record& record, std::shared_ptr<Entry> entry) {
  record.needs_capture = entry->needs_capture();
  has_control_flow = has_control_flow || record.needs_capture;
  records.set_entry(record, std::move(entry));
  record.hits = 0;
  record.breaks = 0;
}

cache_detail::Outcome GraphCache::Impl::run_eagerly(Lock& lock, const Call& call, const StreamRef& stream) {
  const EagerCause why = cause;
  const std::shared_ptr<const CacheFailure> failure = std::exchange(failed, nullptr);
  // The entry whose check failed, if one did. Another thread may replace it during the run.
  const Record* const known = failure != nullptr ? records.find(call.key) : nullptr;
  const std::shared_ptr<Entry> checked = known != nullptr ? known->entry : nullptr;
  lock.unlock();
  const Clock::time_point begin = Clock::now();
  Outcome outcome = caches::run_eagerly(call, stream);
  const Clock::duration time = Clock::now() - begin;
  lock.lock();
  ++counts.eager.number;
  counts.eager.time += time;
  ++counts.eager_by_cause[static_cast<std::size_t>(why)];
  Record& record = records.find_or_add(call.key);
  if (failure != nullptr && record.entry == checked) {
    record.failure = failure;
    record.too_large = why == EagerCause::too_large;
    release(record);
  }
  if (record.entry == nullptr && why == EagerCause::counted) {
    ++record.calls;
    warn_if_unsettled();
  }
  if (why == EagerCause::thrashing && record.wait != 0) --record.wait;
  note_use(record);
  return outcome;
}

bool GraphCache::Impl::capture_ahead(const Call& call) {
  constexpr const char* name = "GraphCache::capture";
  require_outside_of_captures(name);
  require_function(call, name);
  for (const caches::InputMemory& each : call.inputs) (void)caches::padded_bytes(each, call.lengths);
  const Clock::time_point begin = Clock::now();
  const Lock lock(*this, name);
  if (const Record* const known = records.find(call.key)) {
    if (known->entry != nullptr) {
      known->entry->require_fits(call, name);
      return true;
    }
    if (known->failure != nullptr) return false;
  }
  if (records.entries() >= options.max_entries) return false;
  std::shared_ptr<Entry> entry;
  try {
    entry = capture(call, /*run=*/nullptr);
  } catch (CaptureFailed& failure) {
    if (failure.needs_effects) return false;
    if (failure.by_others && failure.after_effects == nullptr) {
      count(counts.failed_captures, begin);
      return false;
    }
    const bool without_memory = failure.missing != 0 && failure.after_effects == nullptr;
    if (failure.of_body != nullptr && failure.after_effects == nullptr && !without_memory)
      std::rethrow_exception(failure.of_body);
    count(counts.failed_captures, begin);
    if (without_memory) return false;
    records.find_or_add(call.key).failure = std::make_shared<const CacheFailure>(std::move(failure.failure));
    if (failure.after_effects != nullptr) std::rethrow_exception(failure.after_effects);
    return false;
  }
  if (bytes() + entry->bytes() > max_bytes) {
    discard(entry);
    return false;
  }
  Record& record = records.find_or_add(call.key);
  count_recapture(record);
  set_entry(record, std::move(entry));
  note_use(record);
  count(counts.captures, begin);
  return true;
}

}  // namespace reprise
