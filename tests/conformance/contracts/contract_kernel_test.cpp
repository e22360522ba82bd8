// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "tests/conformance/contracts/contract.h"
#include "tests/conformance/recorder/measured.h"

namespace reprise::backend::test {
namespace {

/// Reverses each block's values: all of them are in shared memory before the first is read.
struct ReverseBlocks {
  REPRISE_KERNEL void operator()(Block& block, int* values) const {
    int* staged = block.shared<int>(block.size());
    const std::size_t first = std::size_t{block.block_idx().x} * block.size();
    block.for_each_thread([&](const Thread& t) { staged[t.rank()] = values[first + t.rank()]; });
    const unsigned last = block.size() - 1;
    block.for_each_thread([&](const Thread& t) { values[first + t.rank()] = staged[last - t.rank()]; });
  }
};

/// Two arrays of different alignment in shared memory.
struct TwoArrays {
  REPRISE_KERNEL void operator()(Block& block, double* out) const {
    char* letters = block.shared<char>(3);
    double* numbers = block.shared<double>(block.size());
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() < 3) letters[t.rank()] = static_cast<char>(t.rank());
      numbers[t.rank()] = 0.5 * t.rank();
    });
    block.for_each_thread([&](const Thread& t) { out[t.rank()] = numbers[t.rank()] + letters[t.rank() % 3]; });
  }
};

/// Each thread takes a ticket: all of them are different.
struct TakeTickets {
  REPRISE_KERNEL void operator()(Thread t, int* next, int* tickets) const {
    tickets[t.global_x()] = atomic_add(next, 1);
  }
};

/// Sums in shared memory, then one addition a block.
struct SumBlocks {
  REPRISE_KERNEL void operator()(Block& block, const int* values, int* sum) const {
    int* partial = block.shared<int>(1);
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) *partial = 0;
    });
    block.for_each_thread([&](const Thread& t) { atomic_add(partial, values[t.global_x()]); });
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) atomic_add(sum, *partial);
    });
  }
};

/// Takes all shared memory that the launch gives.
struct TakeShared {
  REPRISE_KERNEL void operator()(Block& block, int* out, unsigned bytes) const {
    unsigned char* all = block.shared<unsigned char>(bytes);
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) all[bytes - 1] = 7;
    });
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) *out = all[bytes - 1];
    });
  }
};

class KernelContract : public Contract {
 protected:
  static LaunchConfig shape(Dim3 grid, Dim3 block, unsigned shared_bytes = 0) {
    LaunchConfig config;
    config.grid = grid;
    config.block = block;
    config.shared_bytes = shared_bytes;
    return config;
  }

  void expect_refused(const LaunchConfig& config) {
    int* device = new_memory<int>();
    StreamHandle stream = new_stream();
    EXPECT_RESULT(ErrorCode::invalid_value, launch(stream, config, Store{}, device, 1));
    EXPECT_OK(launch(stream, Store{}, device, 2));
    EXPECT_OK(backend().stream_synchronize(stream));
    EXPECT_EQ(read(device), 2);
  }
};
REPRISE_ON_EVERY_DEVICE(KernelContract);

TEST_P(KernelContract, RunsEachThreadOfTheGridOnce) {
  const LaunchConfig config = shape({3, 4, 2}, {5, 2, 3});
  constexpr std::size_t threads = 3 * 4 * 2 * 5 * 2 * 3;
  StreamHandle stream = new_stream();
  unsigned* cells = new_memory<unsigned>(threads);
  EXPECT_OK(launch(stream, config, CountThreads{}, cells));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(cells, threads), std::vector<unsigned>(threads, 1));
}

TEST_P(KernelContract, TakesParametersOfDifferentTypes) {
  StreamHandle stream = new_stream();
  double* out = new_memory<double>(6);
  int* seven = new_memory<int>();
  EXPECT_OK(launch(stream, Store{}, seven, 7));
  EXPECT_OK(launch(stream, Mixed{}, out, 'A', 2.5, short{-3}, 0.25F, true, seven));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(out, 6), (std::vector<double>{65, 2.5, -3, 0.25, 1, 7}));
}

TEST_P(KernelContract, TellsWhereEachParameterLies) {
  FunctionHandle mixed = function<Mixed>();
  const std::vector<std::pair<std::size_t, std::size_t>> expected = {{0, 8},  {8, 1},  {16, 8}, {24, 2},
                                                                     {28, 4}, {32, 1}, {40, 8}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    KernelParam param;
    EXPECT_OK(backend().function_param_info(mixed, i, &param));
    EXPECT_EQ(param.offset, expected[i].first) << i;
    EXPECT_EQ(param.size, expected[i].second) << i;
    ASSERT_NE(param.type, nullptr) << "the kernel has a record";
  }
  KernelParam number;
  EXPECT_OK(backend().function_param_info(mixed, 2, &number));
  EXPECT_EQ(*number.type, typeid(double));
  KernelParam past_the_end;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().function_param_info(mixed, expected.size(), &past_the_end));
}

TEST_P(KernelContract, KnowsTheNameOfAFunction) {
  const char* name = nullptr;
  ASSERT_OK(backend().function_name(function<ReverseBlocks>(), &name));
  EXPECT_NE(std::string(name).find("ReverseBlocks"), std::string::npos) << name;
}

TEST_P(KernelContract, FindsTheSameFunctionAgain) {
  EXPECT_EQ(function<Store>(), function<Store>());
  EXPECT_NE(function<Store>(), function<Add>());
}

TEST_P(KernelContract, CopiesTheArgumentsAtTheLaunch) {
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  int* device = new_memory<int>(2);
  hold(stream, gate);
  {
    Arguments<Store> arguments(device, 1);
    EXPECT_OK(backend().launch_kernel({function<Store>(), {}, arguments.pointers()}, stream));
    arguments.values() = {device + 1, 2};
  }
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device, 2), (std::vector<int>{1, 0}));
}

TEST_P(KernelContract, RefusesABlockWithoutThreads) {
  expect_refused(shape({1}, {0}));
}
TEST_P(KernelContract, RefusesAGridWithoutBlocks) {
  expect_refused(shape({0}, {1}));
}
TEST_P(KernelContract, RefusesMoreThan1024ThreadsInABlock) {
  expect_refused(shape({1}, {1025}));
}
TEST_P(KernelContract, RefusesMoreThan1024ThreadsInABlockInAllDimensionsTogether) {
  expect_refused(shape({1}, {64, 64}));
}
TEST_P(KernelContract, RefusesABlockDeeperThan64) {
  expect_refused(shape({1}, {1, 1, 65}));
}
TEST_P(KernelContract, RefusesAGridHigherThan65535) {
  expect_refused(shape({1, 65536}, {1}));
}
TEST_P(KernelContract, RefusesAGridDeeperThan65535) {
  expect_refused(shape({1, 1, 65536}, {1}));
}
TEST_P(KernelContract, RefusesMoreSharedMemoryThan48KiBIfNotAskedForBefore) {
  StreamHandle stream = new_stream();
  double* out = new_memory<double>();
  EXPECT_RESULT(ErrorCode::invalid_value, launch(stream, shape({1}, {1}, 48 * 1024 + 1), TwoArrays{}, out));
  EXPECT_OK(launch(stream, shape({1}, {1}, 48 * 1024), TwoArrays{}, out));
  EXPECT_OK(backend().stream_synchronize(stream));
}

TEST_P(KernelContract, RunsTheLargestBlock) {
  StreamHandle stream = new_stream();
  unsigned* cells = new_memory<unsigned>(1024);
  EXPECT_OK(launch(stream, shape({1}, {16, 1, 64}), CountThreads{}, cells));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(cells, 1024), std::vector<unsigned>(1024, 1));
}

TEST_P(KernelContract, GivesMoreSharedMemoryWhenTheFunctionMayHaveIt) {
  constexpr unsigned requested = 100 * 1024;
  StreamHandle stream = new_stream();
  int* device = new_memory<int>();
  EXPECT_OK(backend().function_set_max_shared(function<TakeShared>(), 48 * 1024));
  EXPECT_RESULT(ErrorCode::invalid_value, launch(stream, shape({1}, {32}, requested), TakeShared{}, device, requested));
  EXPECT_OK(backend().function_set_max_shared(function<TakeShared>(), requested));
  EXPECT_OK(launch(stream, shape({1}, {32}, requested), TakeShared{}, device, requested));
  EXPECT_RESULT(ErrorCode::invalid_value,
                launch(stream, shape({1}, {32}, requested + 1), TakeShared{}, device, requested));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 7);
}

TEST_P(KernelContract, RefusesToLetAFunctionHaveMoreSharedMemoryThanThereIs) {
  FunctionHandle sum = function<SumBlocks>();
  EXPECT_RESULT(ErrorCode::invalid_value, backend().function_set_max_shared(sum, 227 * 1024 + 1));
  EXPECT_OK(backend().function_set_max_shared(sum, 227 * 1024));
}

TEST_P(KernelContract, RefusesANullFunction) {
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().launch_kernel({nullptr, {}, nullptr}, new_stream()));
}

TEST_P(KernelContract, RefusesAFunctionOfAnotherDeviceWithoutBreakingTheCapture) {
  REPRISE_NEEDS(GetParam(), Capability::two_devices);
  StreamHandle stream = new_stream();
  int* device = new_memory<int>();
  Backend& other = *another_like(GetParam());
  FunctionHandle function = nullptr;
  ASSERT_OK(other.kernel_function(kernel_record<Store>(), &function));
  int value = 3;
  void* params[] = {&device, &value};
  EXPECT_RESULT(ErrorCode::invalid_handle, other.launch_kernel({function, {}, params}, stream));
  ASSERT_OK(backend().stream_begin_capture(stream, CaptureMode::relaxed));
  EXPECT_RESULT(ErrorCode::invalid_handle, other.launch_kernel({function, {}, params}, stream));
  GraphHandle graph = nullptr;
  EXPECT_OK(backend().stream_end_capture(stream, &graph));
  EXPECT_OK(backend().graph_destroy(graph));
  EXPECT_OK(launch(stream, Store{}, device, 4));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 4);
}

TEST_P(KernelContract, SharedMemoryCarriesValuesFromPhaseToPhase) {
  constexpr unsigned threads = 128, blocks = 8;
  StreamHandle stream = new_stream();
  std::vector<int> values(threads * blocks);
  std::iota(values.begin(), values.end(), 0);
  int* device = new_memory<int>(values.size());
  EXPECT_OK(backend().copy(device, values.data(), values.size() * sizeof(int)));
  EXPECT_OK(backend().stream_synchronize(nullptr));  // a copy from pageable memory returns before it is done
  EXPECT_OK(launch(stream, shape({blocks}, {threads}, threads * sizeof(int)), ReverseBlocks{}, device));
  EXPECT_OK(backend().stream_synchronize(stream));
  for (auto block = values.begin(); block != values.end(); block += threads) std::reverse(block, block + threads);
  EXPECT_EQ(read(device, values.size()), values);
}

TEST_P(KernelContract, SharedArraysFollowEachOtherAligned) {
  constexpr unsigned threads = 16;
  StreamHandle stream = new_stream();
  double* out = new_memory<double>(threads);
  EXPECT_OK(launch(stream, shape({1}, {threads}, 8 + threads * sizeof(double)), TwoArrays{}, out));
  EXPECT_OK(backend().stream_synchronize(stream));
  const std::vector<double> result = read(out, threads);
  for (unsigned i = 0; i < threads; ++i) EXPECT_EQ(result[i], 0.5 * i + i % 3) << i;
}

TEST_P(KernelContract, AtomicAdditionGivesEachThreadAnotherNumber) {
  constexpr unsigned threads = 4096;
  StreamHandle stream = new_stream();
  int* next = new_memory<int>();
  int* tickets = new_memory<int>(threads);
  EXPECT_OK(launch(stream, LaunchConfig::cover(threads), TakeTickets{}, next, tickets));
  EXPECT_OK(backend().stream_synchronize(stream));
  std::vector<int> taken = read(tickets, threads);
  std::sort(taken.begin(), taken.end());
  std::vector<int> expected(threads);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(taken, expected);
  EXPECT_EQ(read(next), static_cast<int>(threads));
}

TEST_P(KernelContract, AtomicAdditionWorksAcrossStreams) {
  StreamHandle first = new_stream();
  StreamHandle second = new_stream();
  constexpr int rounds = 50;
  constexpr unsigned threads = 256;
  std::vector<int> ones(threads, 1);
  int* values = new_memory<int>(threads);
  int* sum = new_memory<int>();
  EXPECT_OK(backend().copy(values, ones.data(), threads * sizeof(int)));
  EXPECT_OK(backend().stream_synchronize(nullptr));  // a copy from pageable memory returns before it is done
  for (int i = 0; i < rounds; ++i)
    for (StreamHandle stream : {first, second})
      EXPECT_OK(launch(stream, shape({2}, {threads / 2}, sizeof(int)), SumBlocks{}, values, sum));
  EXPECT_OK(backend().stream_synchronize(first));
  EXPECT_OK(backend().stream_synchronize(second));
  EXPECT_EQ(read(sum), 2 * rounds * static_cast<int>(threads));
}

// A kernel that fails breaks its device for the whole process, so these run in processes of their own.
class KernelFailureContract : public KernelContract {
 protected:
  KernelFailureContract() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// Ends the process with 0 if `done` holds.
  [[noreturn]] static void end_with(bool done) { std::_Exit(done ? 0 : 1); }

  /// Launches a kernel that takes more shared memory than the launch has.
  void fail(StreamHandle stream, int* device) {
    EXPECT_OK(launch(stream, shape({1}, {1}, 16), TakeShared{}, device, 17U));
  }
};
REPRISE_ON_EVERY_DEVICE(KernelFailureContract);

TEST_P(KernelFailureContract, IsReportedWhenTheStreamIsSynchronised) {
  const auto body = [&] {
    StreamHandle stream = new_stream();
    fail(stream, new_memory<int>());
    end_with(backend().stream_synchronize(stream) == ErrorCode::launch_failure);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_P(KernelFailureContract, IsReportedWhenTheDeviceIsSynchronised) {
  const auto body = [&] {
    fail(new_stream(), new_memory<int>());
    end_with(backend().device_synchronize() == ErrorCode::launch_failure);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_P(KernelFailureContract, StaysTheAnswerToEveryLaterCall) {
  const auto body = [&] {
    StreamHandle stream = new_stream();
    int* device = new_memory<int>();
    fail(stream, device);
    (void)backend().stream_synchronize(stream);
    void* pointer = nullptr;
    EventHandle event = nullptr;
    MemoryInfo info;
    end_with(backend().memory_allocate(&pointer, 64) == ErrorCode::launch_failure &&
             backend().event_create(&event, EventFlags::timing) == ErrorCode::launch_failure &&
             backend().memory_info(&info) == ErrorCode::launch_failure &&
             launch(stream, Store{}, device, 1) == ErrorCode::launch_failure &&
             backend().device_synchronize() == ErrorCode::launch_failure);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace reprise::backend::test
