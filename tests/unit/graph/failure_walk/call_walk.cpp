// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/graph/failure_walk/call_walk.h"

#include <exception>
#include <thread>

#include "captures/registry.h"
#include "tests/unit/graph/graph_fixture.h"
#include "text/format.h"

namespace reprise::test {

using backend::Call;
using backend::test::AccountingBackend;
using graphs::test::contains;
using graphs::test::eventually;
using graphs::test::make_unsafe_call;

namespace {

std::vector<Device> walked_devices() {
  std::vector<Device> all{Device(walked_runtime())};
  if (const auto second = second_walked_device()) all.push_back(*second);
  return all;
}

CaptureMode thread_mode(backend::Backend& runtime) {
  auto mode = CaptureMode::relaxed;
  EXPECT_EQ(runtime.thread_exchange_capture_mode(&mode), ErrorCode::success);
  const CaptureMode found = mode;
  EXPECT_EQ(runtime.thread_exchange_capture_mode(&mode), ErrorCode::success);
  return found;
}

// A failure that is not reported, because nothing is lost.
struct Silent {
  Call call;
  std::optional<ErrorCode> code;  // nothing: any
  const char* reason;
};
constexpr Silent silent[] = {
    {Call::memory_allocate, ErrorCode::out_of_memory, "cached memory is released, and the allocation tried again"},
    {Call::memory_allocate_async, ErrorCode::out_of_memory, "likewise"},
    {Call::stream_is_capturing, std::nullopt,
     "an internal stream that cannot be queried is not used; a block of a stream that cannot be queried is held back"},
};

Outcome outcome_of(WalkedRun& run) {
  Outcome outcome;
  try {
    run.run();
    return outcome;
  } catch (const BodyFailed&) {
    outcome.of_the_body = true;
  } catch (const BackendError& error) {
    outcome.call = error.call();
    outcome.code = error.code();
    outcome.text = error.what();
  } catch (const CaptureError& error) {
    outcome.code = error.code();
    outcome.text = error.what();
  } catch (const std::exception& error) {
    outcome.text = error.what();
  }
  outcome.thrown = true;
  return outcome;
}

// Exact on the host device. A driver keeps memory of its own, for modules and launches: there it must not pile up.
bool free_is(std::uint64_t expected, std::uint64_t found) {
  if (default_device().type() == DeviceType::host) return found == expected;
  return found + (std::uint64_t{64} << 20) > expected;
}

bool is_held(const Held& expected, const Held& found) {
  return found.reserved == expected.reserved && found.reserved_by_pools == expected.reserved_by_pools &&
         found.allocations == expected.allocations && found.living == expected.living &&
         free_is(expected.free, found.free);
}

// False if the operation does not make so many calls.
bool walk_once(const std::string& name, Trouble& trouble, int passed,
               const std::function<std::unique_ptr<WalkedRun>()>& make) {
  AccountingBackend& runtime = walked_runtime();
  // What the replays of the last run held goes a moment after them; memory after the objects that held it.
  EXPECT_TRUE(eventually([&] {
    const Held held = held_by_walked_devices();
    return held.living == backend::test::Living{} && held.allocations == 0 && held.reserved_by_pools == 0;
  }));
  const Held before = held_by_walked_devices();
  {
    const std::unique_ptr<WalkedRun> run = make();
    const Device device = current_device();
    const StreamRef stream = current_stream();
    run->prepare();
    const Warnings warnings;
    trouble.prepare(passed);
    const Outcome outcome = outcome_of(*run);
    const std::string happened = trouble.happened();
    runtime.heal();
    // A call that failed may have been one that orders work: what was launched before is not in the way of the checks.
    if (!captures::any_underway()) device.synchronize();
    if (happened.empty()) {
      EXPECT_EQ(outcome.thrown, outcome.of_the_body) << name << ": " << outcome.text;
      return false;
    }
    SCOPED_TRACE(text::format("{}: call {}, {}", name, passed + 1, happened));
    trouble.expect_reported(outcome, warnings, run->noted());
    EXPECT_FALSE(captures::any_underway());
    EXPECT_EQ(thread_mode(runtime), CaptureMode::global);
    EXPECT_EQ(current_device(), device);
    EXPECT_EQ(current_stream(), stream);
    EXPECT_EQ(stream.capture_status(), CaptureStatus::none);
    EXPECT_EQ(make_unsafe_call(), ErrorCode::success) << "some capture is underway";
    runtime.make_up_for_refused();
    run->check(outcome, trouble);
  }
  runtime.make_up_for_refused();
  SCOPED_TRACE(text::format("{}: call {}", name, passed + 1));
  expect_held(before);
  return true;
}

}  // namespace

AccountingBackend& walked_runtime() {
  static auto& runtime = *new AccountingBackend(default_device().backend());
  return runtime;
}

std::optional<Device> second_walked_device() {
  const std::optional<Device> second = graphs::test::second_device();
  if (!second) return std::nullopt;
  static auto& runtime = *new AccountingBackend(second->backend(), walked_runtime());
  return Device(runtime);
}

std::uint64_t reserved_by_pools_of_walked_devices() {
  std::uint64_t bytes = 0;
  for (const Device& device : walked_devices()) {
    const CachingAllocator& allocator = CachingAllocator::of(device);
    bytes += allocator.statistics().reserved_bytes - allocator.statistics(MempoolId{}).reserved_bytes;
  }
  return bytes;
}

Held held_by_walked_devices() {
  release_finished_graphs();
  Held held;
  for (const Device& device : walked_devices()) {
    CachingAllocator& allocator = CachingAllocator::of(device);
    allocator.empty_cache();
    held.reserved += allocator.statistics().reserved_bytes;
    held.allocations += allocator.statistics().allocations;
    held.free += device.memory_info().free;
  }
  held.reserved_by_pools = reserved_by_pools_of_walked_devices();
  held.living = walked_runtime().living();
  return held;
}

void expect_held(const Held& expected) {
  Held found;
  eventually([&] {
    found = held_by_walked_devices();
    return is_held(expected, found);
  });
  EXPECT_EQ(found.reserved, expected.reserved);
  EXPECT_EQ(found.reserved_by_pools, expected.reserved_by_pools);
  EXPECT_EQ(found.allocations, expected.allocations);
  EXPECT_EQ(found.living.graphs, expected.living.graphs);
  EXPECT_EQ(found.living.execs, expected.living.execs);
  EXPECT_EQ(found.living.user_objects, expected.living.user_objects);
  EXPECT_TRUE(free_is(expected.free, found.free)) << found.free << " bytes are free, expected were " << expected.free;
}

int walk(const std::string& name, Trouble& trouble, const std::function<std::unique_ptr<WalkedRun>()>& make) {
  constexpr int most = 1000;
  int passed = 0;
  for (; passed < most; ++passed) {
    try {
      if (!walk_once(name, trouble, passed, make)) break;
    } catch (const std::exception& error) {  // of the checks themselves, which does not end the walk
      ADD_FAILURE() << name << ", call " << passed + 1 << ": " << error.what();
      walked_runtime().heal();
    }
  }
  EXPECT_GT(passed, 0) << name << " makes no call";
  return passed;
}

void FailingCall::prepare(int passed) {
  walked_runtime().fail_any(code_, passed);
}

std::string FailingCall::happened() {
  failed_ = walked_runtime().failed();
  return failed_ ? text::format("{}, fails with {}", cuda_name(*failed_), result_name(code_)) : std::string();
}

// As the exception, or as a warning if nothing could be thrown.
void FailingCall::expect_reported(const Outcome& outcome, const Warnings& warnings, bool noted) {
  const std::string call = cuda_name(*failed_);
  if (outcome.thrown && !outcome.of_the_body) {
    // A stream that cannot be queried counts as one in a capture, which may be misuse.
    if (failed_ == Call::stream_is_capturing && outcome.call.empty() && !outcome.code) return;
    EXPECT_EQ(outcome.code, code_) << "another error than the first: " << outcome.text;
    EXPECT_TRUE(contains(outcome.text, call)) << outcome.text;
    if (!outcome.call.empty()) {
      EXPECT_EQ(outcome.call, call);
    }
    return;
  }
  if (noted) return;
  if (!warnings.texts().empty()) {
    EXPECT_TRUE(contains(warnings.texts().front(), call));
    EXPECT_TRUE(contains(warnings.texts().front(), result_name(code_)));
    return;
  }
  for (const Silent& each : silent)
    if (each.call == failed_ && (!each.code || *each.code == code_)) {
      unsaid_.insert(each.call);
      return;
    }
  ADD_FAILURE() << "the failure was not reported";
}

void FailingCall::expect_all_silent_ones() const {
  for (const Silent& each : silent)
    EXPECT_EQ(unsaid_.contains(each.call), !each.code || *each.code == code_)
        << cuda_name(each.call) << " is never silent: take it off the list";
}

void BrokenCaptures::prepare(int passed) {
  came_ = broke_ = false;
  walked_runtime().before_any(passed, [this] {
    came_ = true;
    std::thread([this] { broke_ = make_unsafe_call() == ErrorCode::stream_capture_unsupported; }).join();
  });
}

std::string BrokenCaptures::happened() {
  return !came_ ? "" : broke_ ? "after the captures were broken" : "after nothing was broken";
}

void BrokenCaptures::expect_reported(const Outcome& outcome, const Warnings& warnings, bool /*noted*/) {
  EXPECT_TRUE(warnings.texts().empty()) << warnings.texts().front();
  broken_ += broke_;
  if (!outcome.thrown || outcome.of_the_body) return;  // the walk finds out whether all is well
  EXPECT_TRUE(broke_) << outcome.text;
  // By the call that noticed, or by the end of the capture. A wait for an event of a broken capture gets code 1.
  EXPECT_TRUE(outcome.code == ErrorCode::stream_capture_invalidated ||
              (outcome.code == ErrorCode::invalid_value && outcome.call == cuda_name(Call::stream_wait_event)))
      << outcome.text;
}

}  // namespace reprise::test
