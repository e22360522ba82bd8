// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/liveness_fixture.h"
#include "tests/unit/memory/memory_fixture.h"

// Pointers in device memory whose targets a graph uses: CUDAGraph::watch_pointers().

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// x[i] += 1 for the first value of each array that the table has.
struct AddToEach {
  REPRISE_KERNEL void operator()(Thread t, int* const* table, std::size_t count) const {
    if (t.global_x() < count && table[t.global_x()] != nullptr) *table[t.global_x()] += 1;
  }
};

class WatchedPointers : public ::testing::Test {
 protected:
  static FaultyBackend& runtime() {
    static auto& runtime = *new FaultyBackend(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  ~WatchedPointers() override {
    runtime_.heal();
    current_stream().synchronize();
  }

  void write(const std::vector<int*>& pointers) { table_.write(pointers); }
  void capture_work(GraphOptions options = with_check()) {
    options.name = "grouped";
    capture(graph_, options, [&] { launch(table_.size(), AddToEach{}, table_.data(), table_.size()); });
  }
  void capture_and_watch(const GraphOptions& options = with_check()) {
    capture_work(options);
    graph_.watch_pointers(table_, table_.size());
  }
  std::string entry(std::size_t index) const {
    return "entry " + std::to_string(index) + " of the pointers at " + text_of_address(table_.data());
  }
  static std::string text_of_address(const void* address) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return text;
  }
  std::string refused(const void* const* table, std::size_t count) {
    return text_of<UsageError>([&] { graph_.watch_pointers(table, count); });
  }

  FaultyBackend& runtime_ = runtime();
  const DeviceGuard guard_{Device(runtime_)};
  const SideStream stream_;
  Buffer<int> x_ = zeros(n), y_ = zeros(n);
  Buffer<int*> table_{std::size_t{3}};
  CUDAGraph graph_;
};

TEST_F(WatchedPointers, StayWatchedThroughARecapture) {
  Buffer<int> z(n);
  for (const bool in_place : {true, false}) {
    x_ = zeros(n);
    y_ = zeros(n);
    write({x_.data(), nullptr, nullptr});
    graph_.reset();
    capture_and_watch();
    graph_.replay();
    const Recapture again = graph_.recapture([&] {
      launch(table_.size(), AddToEach{}, table_.data(), table_.size());
      if (!in_place) z.fill_bytes_async(0);
    });
    EXPECT_EQ(again.in_place, in_place);
    write({y_.data(), nullptr, nullptr});  // the tables are read again
    graph_.replay();
    EXPECT_EQ(first(y_), 1);
    write({x_.data(), nullptr, nullptr});
    graph_.pointers_changed();
    x_.reset();
    EXPECT_THROW(graph_.replay(), DeadInputError);
  }
}

TEST_F(WatchedPointers, StayWatchedThroughAnUpdate) {
  write({x_.data(), nullptr, nullptr});
  capture_and_watch();
  CUDAGraph other = capture(with_check(), [&] { launch(table_.size(), AddToEach{}, table_.data(), table_.size()); });
  graph_.update(other);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  x_.reset();
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(WatchedPointers, OfAChildAreWatchedForItsParent) {
  write({x_.data(), nullptr, nullptr});
  capture_and_watch();
  CUDAGraph parent = capture(with_check(), [&] { add_child(graph_); });
  parent.replay();
  EXPECT_EQ(first(x_), 1);
  EXPECT_THAT(parent.inputs(), Contains(::testing::Field(&GraphInput::address, x_.data())));
  x_.reset();
  EXPECT_THROW(parent.replay(), DeadInputError);
}

TEST_F(WatchedPointers, ALiveTableIsReplayedAndReadOnce) {
  write({x_.data(), nullptr, y_.data() + 1});
  capture_and_watch();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  EXPECT_EQ(read(y_)[1], 1);
  runtime_.forget_calls();
  for (int i = 0; i < 3; ++i) graph_.replay();
  EXPECT_EQ(runtime_.calls(Call::graph_launch), 3);
  EXPECT_EQ(runtime_.calls(), 3) << "nothing is read or queried";
  EXPECT_EQ(first(x_), 4);
}

TEST_F(WatchedPointers, InputsListTheTargetsByTheirEntriesOnceTheTableWasRead) {
  write({x_.data(), x_.data() + 2, nullptr});
  capture_and_watch();
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(table_.data(), table_.data()));
  graph_.replay();
  const std::vector<GraphInput> inputs = graph_.inputs();
  ASSERT_THAT(inputs, SizeIs(3));
  const auto& found = *std::ranges::find(inputs, static_cast<const void*>(x_.data()), &GraphInput::address);
  EXPECT_EQ(found.bytes, 1536U);
  EXPECT_THAT(found.nodes, ElementsAre(entry(0), entry(1)));
}

TEST_F(WatchedPointers, AReplayIsRefusedOnceATargetWasFreedAndNamesTheEntry) {
  record_allocation_stacks(true);
  Buffer<int> z = zeros(n);
  write({x_.data(), z.data(), y_.data()});
  capture_and_watch();
  graph_.replay();
  current_stream().synchronize();
  const void* const address = z.data();
  z.reset();
  record_allocation_stacks(false);
  for (int i = 0; i < 2; ++i) {
    const DeadInputError error = refusal(graph_);
    ASSERT_THAT(error.inputs(), SizeIs(1));
    EXPECT_EQ(error.inputs()[0].address, address);
    EXPECT_THAT(error.inputs()[0].nodes, ElementsAre(entry(1)));
    EXPECT_THAT(error.inputs()[0].freed, ::testing::Not(IsEmpty()));
    EXPECT_THAT(error.what(), HasSubstr("freed; used by " + entry(1)));
    EXPECT_THAT(error.what(), HasSubstr("of the graph `grouped`"));
  }
}

TEST_F(WatchedPointers, ATargetThatWasFreedBeforeTheTableIsReadIsDead) {
  Buffer<int> z = zeros(n);
  write({x_.data(), z.data(), nullptr});
  capture_and_watch();
  const void* const address = z.data();
  z.reset();
  const DeadInputError error = refusal(graph_);
  ASSERT_THAT(error.inputs(), SizeIs(1));
  EXPECT_EQ(error.inputs()[0].address, address);
  EXPECT_THAT(error.what(), HasSubstr("memory at " + text_of_address(address) + ": freed; used by " + entry(1)));
}

TEST_F(WatchedPointers, AnotherTableIsReadAfterPointersChanged) {
  Buffer<int> z = zeros(n);
  write({z.data(), nullptr, nullptr});
  capture_and_watch();
  graph_.replay();
  write({x_.data(), nullptr, nullptr});
  z.reset();
  EXPECT_THAT(refusal(graph_).inputs(), SizeIs(1)) << "the change was not announced";
  graph_.pointers_changed();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  const void* const address = x_.data();
  x_.reset();
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
}

TEST_F(WatchedPointers, AddressesThatNoAllocatorKnowsAreListedAsNotChecked) {
  static int of_the_host = 0;
  write({&of_the_host, x_.data(), nullptr});
  capture(graph_, with_check(Liveness::all), [&] {  // the kernel reads nothing: not every device may
    launch(table_.size(), AddToEach{}, table_.data(), std::size_t{0});
  });
  graph_.watch_pointers(table_, table_.size());
  graph_.replay();
  const std::vector<GraphInput> inputs = graph_.inputs();
  const auto& found = *std::ranges::find(inputs, static_cast<const void*>(&of_the_host), &GraphInput::address);
  EXPECT_THAT(found.not_checked, HasSubstr("no allocator knows the address"));
  EXPECT_THAT(found.nodes, ElementsAre(entry(0)));
  EXPECT_EQ(found.bytes, 0U);
  for (const GraphInput& input : inputs) EXPECT_EQ(input.not_checked.empty(), input.address != &of_the_host);
}

TEST_F(WatchedPointers, MemoryOfTheDriverIsCheckedWithAllAndElseListed) {
  void* memory = nullptr;
  backend::Checked(runtime_).memory_allocate(&memory, n * sizeof(int));
  backend::Checked(runtime_).set_async({memory, 0, 1, sizeof(int)}, current_stream().native());
  write({static_cast<int*>(memory), nullptr, nullptr});
  capture_and_watch();
  graph_.replay();
  const std::vector<GraphInput> inputs = graph_.inputs();
  EXPECT_THAT(std::ranges::find(inputs, memory, &GraphInput::address)->not_checked, HasSubstr("Liveness::all"));
  graph_.reset();

  capture_and_watch(with_check(Liveness::all));
  graph_.replay();
  graph_.replay();
  current_stream().synchronize();
  backend::Checked(runtime_).memory_free(memory);
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(static_cast<const void*>(memory)));
}

TEST_F(WatchedPointers, AFreedTableIsNotReadAndTheReplayRefused) {
  write({x_.data(), nullptr, nullptr});
  capture_and_watch();
  const void* const address = table_.data();
  table_.reset();
  runtime_.forget_calls();
  const DeadInputError error = refusal(graph_);
  EXPECT_EQ(runtime_.calls(Call::copy_async), 0);
  EXPECT_THAT(addresses(error.inputs()), Contains(address));
  EXPECT_THAT(error.what(), HasSubstr("the table of 3 pointers at " + text_of_address(address)));
}

TEST_F(WatchedPointers, WorkThatFillsTheTableBeforeTheReplayIsWaitedFor) {
  capture_and_watch();
  const std::vector<int*> pointers = {x_.data(), nullptr, nullptr};
  table_.write_async(pointers);
  graph_.replay();
  x_.reset();
  EXPECT_THAT(dead_inputs(graph_), SizeIs(1));
}

TEST_F(WatchedPointers, AGraphWithoutOtherInputsTakesThemToo) {
  capture(graph_, with_check(), [] { Buffer<int>(8).fill_bytes_async(0); });
  write({x_.data(), nullptr, nullptr});
  graph_.watch_pointers(table_, 3);
  graph_.replay();
  current_stream().synchronize();
  x_.reset();
  EXPECT_THAT(dead_inputs(graph_), SizeIs(1));
}

TEST_F(WatchedPointers, AFailureOfTheCopyIsAnErrorAndTheNextReplayReadsAgain) {
  write({x_.data(), nullptr, nullptr});
  capture_and_watch();
  runtime_.fail(Call::copy_async, ErrorCode::launch_failure);
  EXPECT_THROW(graph_.replay(), BackendError);
  graph_.replay();
  current_stream().synchronize();
  x_.reset();
  EXPECT_THAT(dead_inputs(graph_), SizeIs(1));
}

TEST_F(WatchedPointers, CapturesOfOtherThreadsGoOnWhileATableIsRead) {
  write({x_.data(), nullptr, nullptr});
  capture_and_watch();
  CUDAGraph other;
  const Stream captured;
  {
    const StreamGuard current(captured);
    other.capture_begin();
    add(y_);
  }
  graph_.replay();
  {
    const StreamGuard current(captured);
    other.capture_end();
  }
  other.replay();
  current_stream().synchronize();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(WatchedPointers, AReplayInACaptureOfOtherCodeThatWouldReadATableIsRefusedAndTheCaptureGoesOn) {
  write({x_.data(), nullptr, nullptr});
  capture_and_watch();
  const Stream captured;
  {
    const memory::test::RawCapture capture(captured);
    runtime_.forget_calls();
    EXPECT_THAT(text_of<UsageError>([&] { graph_.replay(captured); }),
                AllOf(HasSubstr("the stream is being captured"), HasSubstr("The capture continues.")));
    EXPECT_EQ(runtime_.calls(Call::copy_async), 0);
    EXPECT_TRUE(capture.is_whole());
  }
  graph_.replay(captured);
  captured.synchronize();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(WatchedPointers, MisuseIsRefusedAndChangesNothing) {
  write({nullptr, nullptr, nullptr});
  EXPECT_THAT(text_of<UsageError>([&] { graph_.watch_pointers(table_, 3); }), HasSubstr("empty"));
  EXPECT_THROW(graph_.pointers_changed(), UsageError);
  capture(graph_, [&] { add(x_); });
  EXPECT_THAT(text_of<UsageError>([&] { graph_.watch_pointers(table_, 3); }), HasSubstr("check_input_liveness"));
  graph_.reset();
  capture_work();
  const auto* const table = reinterpret_cast<const void* const*>(table_.data());
  const auto* const bytes = reinterpret_cast<const char*>(table_.data());
  EXPECT_THAT(refused(nullptr, 1), HasSubstr("a null pointer"));
  EXPECT_THAT(refused(table, 0), HasSubstr("a count of 0"));
  EXPECT_THAT(refused(table, std::numeric_limits<std::size_t>::max()), HasSubstr("perhaps a negative number. Nothing"));
  EXPECT_THAT(refused(table, std::size_t{1} << 40), HasSubstr("where 64 lie between"));
  EXPECT_THAT(refused(table + 60, 5), HasSubstr("where 4 lie between"));
  EXPECT_THAT(refused(reinterpret_cast<const void* const*>(bytes + 4), 1), HasSubstr("no multiple of 8"));
  static const void* const of_the_host[1] = {};
  EXPECT_THAT(refused(of_the_host, 1), HasSubstr("lies in no memory of the device"));
  EXPECT_THAT(text_of<UsageError>([&] { graph_.watch_pointers(table_, 4); }), HasSubstr("the buffer has, 3"));
  graph_.replay();
  EXPECT_THAT(graph_.inputs(), SizeIs(1)) << "nothing is watched";
}

TEST_F(WatchedPointers, MemoryOfTheGraphsOwnPoolOrThatWasFreedIsNoTable) {
  Buffer<int*> own;
  capture(graph_, with_check(), [&] {
    own = Buffer<int*>(3);
    own.fill_bytes_async(0);
  });
  EXPECT_THAT(text_of<UsageError>([&] { graph_.watch_pointers(own, 3); }), HasSubstr("the graph's own pool"));
  const auto* const freed = reinterpret_cast<const void* const*>(table_.data());
  const Buffer<int> keeps_the_segment(1);
  table_.reset();
  EXPECT_THAT(refused(freed, 1), HasSubstr("memory that was freed"));
}

TEST_F(WatchedPointers, ATableOfAnotherDeviceIsRefused) {
  const auto second = second_device();
  if (!second) GTEST_SKIP() << "there is one device here";
  const DeviceGuard there(*second);
  const Buffer<int*> far(3);
  const DeviceGuard here(Device{runtime_});
  capture_work();
  EXPECT_THAT(text_of<UsageError>([&] { graph_.watch_pointers(far, 3); }), HasSubstr("memory of device"));
}

TEST_F(WatchedPointers, AHookOfTheGraphCannotChangeWhatIsWatched) {
  std::string text;
  GraphOptions options = with_check();
  options.hooks.captured = [&](auto&&...) { text = text_of<UsageError>([&] { graph_.watch_pointers(table_, 3); }); };
  capture_work(options);
  EXPECT_THAT(text, HasSubstr("within a hook"));
}

TEST_F(WatchedPointers, AResetForgetsTheTables) {
  Buffer<int> z = zeros(n);
  write({z.data(), nullptr, nullptr});
  capture_and_watch();
  graph_.replay();
  current_stream().synchronize();
  graph_.reset();
  z.reset();
  write({nullptr, nullptr, nullptr});
  capture_work();
  graph_.replay();
  EXPECT_THAT(graph_.inputs(), SizeIs(1));
}

}  // namespace
}  // namespace reprise::graphs::test
