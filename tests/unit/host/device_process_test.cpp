// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "backend/backend.h"
#include "reprise/reprise.h"
#include "tests/support/host_environment.h"
#include "tests/support/warnings.h"

// What only the host device has: its options, protected memory, poison, and errors of kernels. Options hold for a whole
// process and some of these tests end it, so each runs its body in a process of its own (a death test).

namespace reprise {
namespace {

class HostDeviceProcess : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

struct Increment {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 1;
  }
};

struct UseTooMuchSharedMemory {
  REPRISE_KERNEL void operator()(Block& block) const { block.shared<double>(1000)[0] = 1; }
};

struct WriteSharedSum {
  REPRISE_KERNEL void operator()(Block& block, int* all_zero) const {
    unsigned char* const shared = block.shared<unsigned char>(64);
    block.for_each_thread([&](const Thread& t) {
      if (shared[t.rank()] != 0) *all_zero = 0;
    });
  }
};

void expect_true_in_own_process(bool (*body)()) {
  EXPECT_EXIT(std::_Exit(body() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

HostDeviceOptions protected_memory() {
  HostDeviceOptions options;
  options.protect = true;
  return options;
}

TEST_F(HostDeviceProcess, WithProtectionOperationsReachDeviceMemoryAsEver) {
  expect_true_in_own_process([] {
    test::set_host_environment(protected_memory());
    const Device device = Device::parse("host");
    const Stream stream(device);
    const StreamGuard guard(stream);
    Buffer<int> x(std::vector<int>(1000, 41));
    CUDAGraph g;
    capture(g, [&] { launch(x.size(), Increment{}, x.data(), x.size()); });
    g.replay(device.default_stream());
    device.synchronize();
    std::vector<int> out(1000);
    x.read_async(out);
    return out == std::vector<int>(1000, 42);
  });
}

TEST_F(HostDeviceProcess, WithProtectionAReadByTheHostPrintsAddressBlockAndStack) {
  EXPECT_DEATH(
      {
        test::set_host_environment(protected_memory());
        Buffer<int> x(100, Device::parse("host").default_stream());
        volatile int* const address = x.data() + 5;
        std::_Exit(*address == 0 ? 0 : 1);
      },
      "the host read from device memory at 0x[0-9a-f]+ outside of any operation of the device(.|\n)*It is byte 20 of "
      "the block of [0-9]+ bytes at 0x[0-9a-f]+(.|\n)*The stack of the access");
}

TEST_F(HostDeviceProcess, WithProtectionAWriteByTheHostToFreedMemorySaysThatItWasFreed) {
  EXPECT_DEATH(
      {
        test::set_host_environment(protected_memory());
        backend::Backend& backend = Device::parse("host").backend();
        void* memory = nullptr;
        if (backend.memory_allocate(&memory, 4096) != ErrorCode::success) std::_Exit(1);
        if (backend.memory_free(memory) != ErrorCode::success) std::_Exit(1);
        *static_cast<volatile int*>(memory) = 7;
        std::_Exit(0);
      },
      "the host wrote to device memory(.|\n)*No block is allocated there: it was freed, or never allocated");
}

TEST_F(HostDeviceProcess, WithProtectionDataCanBeCopiedBetweenTwoDevices) {
  expect_true_in_own_process([] {
    test::set_host_environment(protected_memory(), 2);
    const StreamRef first = Device::parse("host:0").default_stream();
    const StreamRef second = Device::parse("host:1").default_stream();
    const Buffer<int> from(std::vector<int>{1, 2, 3}, first);
    const Buffer<int> to(3, second);
    first.synchronize();
    copy_async(to.data(), from.data(), from.size_bytes(), second);
    std::vector<int> out(3);
    to.read_async(out, second);
    return out == std::vector<int>{1, 2, 3};
  });
}

TEST_F(HostDeviceProcess, WithoutProtectionTheHostCanReadDeviceMemory) {
  // Not a promise to the user, but what makes protection worth having.
  expect_true_in_own_process([] {
    test::set_host_environment({});
    Buffer<int> x(std::vector<int>{1, 2, 3}, Device::parse("host").default_stream());
    Device::parse("host").synchronize();
    return x.data()[1] == 2;
  });
}

TEST_F(HostDeviceProcess, FreedMemoryIsFilledWithPoison) {
  expect_true_in_own_process([] {
    backend::Backend& backend = Device::parse("host").backend();
    void* memory = nullptr;
    const std::vector<unsigned char> ones(64, 1);
    std::vector<unsigned char> out(64);
    bool good = backend.memory_allocate(&memory, 64) == ErrorCode::success &&
                backend.copy(memory, ones.data(), 64) == ErrorCode::success &&
                backend.memory_free(memory) == ErrorCode::success;
    void* again = nullptr;
    good = good && backend.memory_allocate(&again, 64) == ErrorCode::success && again == memory &&
           backend.copy(out.data(), again, 64) == ErrorCode::success;
    return good && out == std::vector<unsigned char>(64, 0xDB);
  });
}

TEST_F(HostDeviceProcess, SharedMemoryDoesNotStartAsZeros) {
  expect_true_in_own_process([] {
    const Device device = Device::parse("host");
    Buffer<int> all_zero(std::vector<int>{1}, device.default_stream());
    const LaunchConfig config{.grid = 1, .block = 64, .shared_bytes = 64};
    launch(device.default_stream(), config, WriteSharedSum{}, all_zero.data());
    std::vector<int> out(1);
    all_zero.read_async(out, device.default_stream());
    return out[0] == 0;
  });
}

TEST_F(HostDeviceProcess, AKernelThatFailsMakesEveryLaterCallOfItsDeviceFail) {
  expect_true_in_own_process([] {
    const Device device = Device::parse("host");
    const LaunchConfig config{.grid = 1, .block = 32, .shared_bytes = 64};
    launch(device.default_stream(), config, UseTooMuchSharedMemory{});
    int failures = 0;
    for (int i = 0; i < 2; ++i) {
      try {
        device.synchronize();
      } catch (const BackendError& error) {
        const std::string text = error.what();
        if (error.code() == ErrorCode::launch_failure && text.find("8000") != std::string::npos) ++failures;
      }
    }
    return failures == 2;
  });
}

TEST_F(HostDeviceProcess, AGraphOfADeviceThatFailedIsDestroyedWithoutWaitingForIt) {
  expect_true_in_own_process([] {
    const Device device = Device::parse("host");
    static bool waited = false;
    set_log_sink([](std::string_view text) { waited |= text.find("did not release") != std::string_view::npos; });
    {
      Buffer<int> x(std::vector<int>{0}, device.default_stream());
      CUDAGraph g;
      capture(g, [&] { launch(1, Increment{}, x.data(), x.size()); });
      const LaunchConfig config{.grid = 1, .block = 32, .shared_bytes = 64};
      launch(device.default_stream(), config, UseTooMuchSharedMemory{});
      try {
        device.synchronize();
      } catch (const BackendError&) {
      }
    }
    return !waited;
  });
}

TEST_F(HostDeviceProcess, ACooperativeLaunchOfMoreBlocksThanFitIsRefused) {
  expect_true_in_own_process([] {
    const Device device = Device::parse("host");
    const StreamRef stream = device.default_stream();
    Buffer<int> x(std::vector<int>{0}, stream);
    LaunchConfig config{.grid = 1000, .block = 1024};
    config.cooperative = true;
    try {
      launch(stream, config, Increment{}, x.data(), x.size());
    } catch (const BackendError& error) {
      config.grid = 264;
      launch(stream, config, Increment{}, x.data(), x.size());
      return error.code() == ErrorCode::cooperative_launch_too_large;
    }
    return false;
  });
}

TEST_F(HostDeviceProcess, TwoHostDevicesHaveMemoryOfTheirOwn) {
  expect_true_in_own_process([] {
    test::set_host_environment({.memory_bytes = std::size_t{8} << 20}, 2);
    backend::Backend& first = Device::parse("host:0").backend();
    backend::Backend& second = Device::parse("host:1").backend();
    void* memory = nullptr;
    MemoryInfo info;
    bool good = first.memory_allocate(&memory, std::size_t{6} << 20) == ErrorCode::success;
    good = good && second.memory_info(&info) == ErrorCode::success && info.free == info.total;
    good = good && first.memory_info(&info) == ErrorCode::success && info.free == std::size_t{2} << 20;
    backend::PointerInfo pointer;
    good = good && second.pointer_info(memory, &pointer) == ErrorCode::success && pointer.device_index == 0;
    void* more = nullptr;
    good = good && first.memory_allocate(&more, std::size_t{6} << 20) == ErrorCode::out_of_memory;
    return good && second.memory_allocate(&more, std::size_t{6} << 20) == ErrorCode::success;
  });
}

// Leaves by exit() in a capture that it broke. A static graph is destroyed after the thread's own objects are.
[[noreturn]] void exit_in_a_broken_capture() {
  static CUDAGraph graph;
  static const Stream stream(Device::parse("host"));
  const StreamGuard guard(stream);
  graph.capture_begin();
  EXPECT_THROW(stream.synchronize(), BackendError);
  std::exit(0);
}

TEST_F(HostDeviceProcess, CanEndInTheMidstOfABrokenCaptureOfAStaticGraph) {
  EXPECT_EXIT(exit_in_a_broken_capture(), ::testing::ExitedWithCode(0), "");
}

struct StoreOffset {
  REPRISE_KERNEL void operator()(Thread t, PhiloxState state, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] = static_cast<int>(state.offset());
  }
};

// The end of a capture clears these words in a stream of their device.
TEST_F(HostDeviceProcess, AComparisonWaitsUntilWordsOfRandomNumbersOfAnotherDeviceAreCleared) {
  expect_true_in_own_process([] {
    test::set_host_environment({.check_races = true}, 2);
    const test::Warnings warnings;  // of races
    const Stream here(Device::parse("host:0")), far(Device::parse("host:1"));
    const StreamGuard guard(here);
    const Generator generator(far.device());
    const Buffer<int> drawn(4, far);
    const auto body = [&] {
      far.wait(current_stream());
      launch(far, 4, StoreOffset{}, generator.philox_state(4, far), drawn.data(), drawn.size());
      current_stream().wait(far);
    };
    CUDAGraph graph = capture(body);
    graph.replay();
    const Comparison found = compare(graph, body);
    return found.same() && warnings.texts().empty();
  });
}

TEST_F(HostDeviceProcess, TheEnvironmentSetsTheOptions) {
  expect_true_in_own_process([] {
    setenv("REPRISE_HOST_DEVICES", "3", 1);
    setenv("REPRISE_HOST_MEMORY", "4194304", 1);
    return Device::parse("host:2").memory_info().total == 4194304;
  });
}

TEST_F(HostDeviceProcess, ABadValueInTheEnvironmentIsRefusedWithTheRange) {
  expect_true_in_own_process([] {
    setenv("REPRISE_HOST_DEVICES", "many", 1);
    try {
      Device::parse("host");
    } catch (const UsageError& error) {
      return std::string(error.what()).find("REPRISE_HOST_DEVICES should be a whole number from 1 to 16") !=
             std::string::npos;
    }
    return false;
  });
}

}  // namespace
}  // namespace reprise
