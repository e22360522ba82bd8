// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <numeric>
#include <set>

#include "tests/conformance/contracts/contract.h"

namespace reprise::backend::test {
namespace {

class StreamContract : public Contract {
 protected:
  static constexpr auto blocking = StreamFlags::blocking;
  static constexpr auto non_blocking = StreamFlags::non_blocking;
  static constexpr StreamHandle legacy = nullptr;
};
REPRISE_ON_EVERY_DEVICE(StreamContract);

TEST_P(StreamContract, RunsWorkInTheOrderThatItWasGiven) {
  StreamHandle stream = new_stream();
  int* log = new_memory<int>(100);
  int* length = new_memory<int>();
  for (int i = 0; i < 100; ++i) EXPECT_OK(launch(stream, Append{}, log, length, i));
  EXPECT_OK(backend().stream_synchronize(stream));
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(read(log, 100), expected);
}

TEST_P(StreamContract, ReturnsFromEveryKindOfWorkWhileTheStreamIsHeld) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate();
  int* device = new_memory<int>(2);
  int* pinned = new_pinned<int>();
  std::atomic<bool> ran = false;
  const auto note = [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); };
  hold(stream, gate);
  EXPECT_OK(launch(stream, Store{}, device, 1));
  EXPECT_OK(backend().set_async({device + 1, 2, 4, 1}, stream));
  EXPECT_OK(backend().copy_async(pinned, device + 1, sizeof(int), stream));
  EXPECT_OK(backend().event_record(new_event(), stream, EventUseFlags::ordering));
  EXPECT_OK(backend().launch_host_function({note, &ran}, stream));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(stream));
  EXPECT_FALSE(ran);
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_OK(backend().stream_query(stream));
  EXPECT_EQ(read(device), 1);
  EXPECT_EQ(*pinned, 2);
  EXPECT_TRUE(ran);
}

TEST_P(StreamContract, RunsAStreamWhileAnotherIsHeld) {
  StreamHandle held = new_stream();
  StreamHandle stream = new_stream();
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  hold(held, gate);
  EXPECT_OK(launch(stream, Store{}, device, 1));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(held));
  EXPECT_EQ(read(device), 1);
}

TEST_P(StreamContract, RunsHostFunctionsOfSeveralStreamsAtOnce) {
  REPRISE_NEEDS(GetParam(), Capability::parallel_host_functions);
  Meeting meeting(4);
  std::array<StreamHandle, 4> streams{};
  for (StreamHandle& stream : streams) {
    stream = new_stream();
    EXPECT_OK(backend().launch_host_function({&Meeting::attend, &meeting}, stream));
  }
  for (StreamHandle stream : streams) EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_TRUE(meeting.all_met());
}

TEST_P(StreamContract, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  StreamHandle first = new_stream(blocking);
  StreamHandle second = new_stream(blocking);
  Gate& gate = new_gate();
  int* log = new_memory<int>(3);
  int* length = new_memory<int>();
  hold(first, gate);
  EXPECT_OK(launch(first, Append{}, log, length, 1));
  EXPECT_OK(launch(legacy, Append{}, log, length, 2));
  EXPECT_OK(launch(second, Append{}, log, length, 3));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(legacy));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(second));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(second));
  EXPECT_EQ(read(log, 3), (std::vector<int>{1, 2, 3}));
}

TEST_P(StreamContract, BlockingStreamsDoNotWaitForEachOther) {
  StreamHandle held = new_stream(blocking);
  StreamHandle stream = new_stream(blocking);
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  int* pinned = new_pinned<int>();
  hold(held, gate);
  EXPECT_OK(launch(stream, Store{}, device, 6));
  EXPECT_OK(backend().copy_async(pinned, device, sizeof(int), stream));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(held));
  EXPECT_EQ(*pinned, 6);
}

TEST_P(StreamContract, NonBlockingStreamsDoNotWaitForTheLegacyStream) {
  StreamHandle stream = new_stream(non_blocking);
  Gate& gate = new_gate();
  int* pinned = new_pinned<int>();
  int* device = new_memory<int>();
  hold(legacy, gate);
  EXPECT_OK(launch(stream, Store{}, device, 4));
  EXPECT_OK(backend().copy_async(pinned, device, sizeof(int), stream));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(legacy));
  EXPECT_EQ(*pinned, 4);
}

TEST_P(StreamContract, TheLegacyStreamDoesNotWaitForNonBlockingStreams) {
  StreamHandle held = new_stream(non_blocking);
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  hold(held, gate);
  EXPECT_OK(launch(legacy, Store{}, device, 5));
  EXPECT_OK(backend().stream_synchronize(legacy));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(held));
  EXPECT_EQ(read(device), 5);
}

TEST_P(StreamContract, TheHandleOneIsTheLegacyStreamToo) {
  auto* const one = reinterpret_cast<StreamHandle>(1);
  Gate& gate = new_gate();
  hold(legacy, gate);
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(one));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(one));
  std::uint64_t id_of_null = 0, id_of_one = 1;
  EXPECT_OK(backend().stream_id(legacy, &id_of_null));
  EXPECT_OK(backend().stream_id(one, &id_of_one));
  EXPECT_EQ(id_of_null, id_of_one);
}

TEST_P(StreamContract, HasAnIdOfItsOwn) {
  std::set<std::uint64_t> ids;
  for (StreamHandle stream : {legacy, new_stream(), new_stream(), new_stream(blocking)}) {
    std::uint64_t id = 0;
    EXPECT_OK(backend().stream_id(stream, &id));
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 4U);
}

TEST_P(StreamContract, TellsItsFlags) {
  StreamFlags flags = blocking;
  EXPECT_OK(backend().stream_flags(new_stream(non_blocking), &flags));
  EXPECT_EQ(flags, non_blocking);
  EXPECT_OK(backend().stream_flags(new_stream(blocking), &flags));
  EXPECT_EQ(flags, blocking);
  flags = non_blocking;
  EXPECT_OK(backend().stream_flags(legacy, &flags));
  EXPECT_EQ(flags, blocking);
}

TEST_P(StreamContract, RefusesFlagsThatThereAreNot) {
  StreamHandle stream = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().stream_create(&stream, static_cast<StreamFlags>(7), 0));
  EXPECT_EQ(stream, nullptr);
}

TEST_P(StreamContract, ClampsPrioritiesToItsRange) {
  int least = -1, greatest = 1, priority = 99;
  ASSERT_OK(backend().stream_priority_range(&least, &greatest));
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, least);
  EXPECT_OK(backend().stream_priority(new_stream(non_blocking, greatest), &priority));
  EXPECT_EQ(priority, greatest);
  EXPECT_OK(backend().stream_priority(new_stream(non_blocking, greatest - 100), &priority));
  EXPECT_EQ(priority, greatest);
  EXPECT_OK(backend().stream_priority(new_stream(non_blocking, least + 100), &priority));
  EXPECT_EQ(priority, least);
}

TEST_P(StreamContract, StillDoesTheWorkOfAStreamThatIsDestroyed) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  int* device = new_memory<int>();
  hold(stream, gate);
  EXPECT_OK(launch(stream, Store{}, device, 8));
  destroy(stream);
  EXPECT_FALSE(gate.is_open()) << "destroying does not wait";
  gate.open();
  EXPECT_OK(backend().device_synchronize());
  EXPECT_EQ(read(device), 8);
}

TEST_P(StreamContract, RefusesToDestroyTheLegacyStream) {
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().stream_destroy(legacy));
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().stream_destroy(reinterpret_cast<StreamHandle>(1)));
  EXPECT_OK(backend().stream_synchronize(legacy));
}

TEST_P(StreamContract, SynchronisingTheDeviceWaitsForEveryStream) {
  int* values = new_memory<int>(2);
  std::vector<Gate*> gates;
  for (StreamHandle stream : {new_stream(blocking), new_stream(non_blocking)}) {
    gates.push_back(&new_gate(by_steps_too));
    hold(stream, *gates.back());
    EXPECT_OK(launch(stream, Store{}, values + gates.size() - 1, 1));
  }
  std::thread opener([&] {
    for (Gate* gate : gates) gate->open();
  });
  EXPECT_OK(backend().device_synchronize());
  opener.join();
  EXPECT_EQ(read(values, 2), (std::vector<int>{1, 1}));
}

TEST_P(StreamContract, RefusesAHostFunctionThatIsNull) {
  StreamHandle stream = new_stream();
  EXPECT_RESULT(ErrorCode::invalid_value, backend().launch_host_function({nullptr, nullptr}, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
}

struct CallsFromInside {
  Backend* backend;
  ErrorCode allocate, info, create_stream, create_graph;

  static void make(void* data) {
    auto& calls = *static_cast<CallsFromInside*>(data);
    void* pointer = nullptr;
    MemoryInfo info;
    StreamHandle stream = nullptr;
    GraphHandle graph = nullptr;
    calls.allocate = calls.backend->memory_allocate(&pointer, 64).code();
    calls.info = calls.backend->memory_info(&info).code();
    calls.create_stream = calls.backend->stream_create(&stream, StreamFlags::non_blocking, 0).code();
    calls.create_graph = calls.backend->graph_create(&graph).code();
  }
};

TEST_P(StreamContract, RefusesCallsFromInsideAHostFunction) {
  StreamHandle stream = new_stream();
  CallsFromInside calls{&backend(), ErrorCode::success, ErrorCode::success, ErrorCode::success, ErrorCode::success};
  EXPECT_OK(backend().launch_host_function({&CallsFromInside::make, &calls}, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_RESULT(ErrorCode::not_permitted, calls.allocate);
  EXPECT_RESULT(ErrorCode::not_permitted, calls.info);
  EXPECT_RESULT(ErrorCode::not_permitted, calls.create_stream);
  EXPECT_RESULT(ErrorCode::not_permitted, calls.create_graph);
  EXPECT_OK(backend().stream_query(stream)) << "and nothing else happens";
}

}  // namespace
}  // namespace reprise::backend::test
