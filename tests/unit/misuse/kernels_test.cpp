// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <functional>
#include <typeinfo>

#include "reprise/reprise.h"
#include "tests/support/refused.h"

// Wrong arguments of kernel.h, accesses.h and launch_host.h, on the host device.

namespace reprise::test {
namespace {

struct MisusedKernel {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 1;
  }
};

// Declares as many elements as its argument says.
struct Declares {
  REPRISE_KERNEL void operator()(Thread, int*, std::size_t) const {}
  static auto accesses(int* x, std::size_t n) { return std::array{writes(x, n)}; }
};
struct DeclaresBytes {
  REPRISE_KERNEL void operator()(Thread, int*, std::size_t) const {}
  static auto accesses(int* x, std::size_t bytes) { return std::array{MemoryAccess{x, bytes, true, {}}}; }
};

class MisusedKernels : public ::testing::Test {
 protected:
  ~MisusedKernels() override {
    reprise::launch(stream_, x_.size(), MisusedKernel{}, x_.data(), x_.size());
    EXPECT_EQ(x_.read(stream_), std::vector<int>(10, 1)) << "no refused launch ran";
  }

  Refused shape(const LaunchConfig& config, const char* text) {
    return {[this, config] { reprise::launch(stream_, config, MisusedKernel{}, x_.data(), x_.size()); }, text};
  }

  const DeviceGuard guard_{Device::parse("host")};
  const Stream stream_;
  Buffer<int> x_{std::vector<int>(10), stream_};
};

TEST_F(MisusedKernels, ShapesThatADeviceDoesNotHaveAreRefused) {
  expect_refused<BackendError>({
      shape({.grid = 0}, "launch: cuLaunchKernelEx returned 1"),
      shape({.grid = 0}, "grid 0 x 1 x 1 of blocks 1 x 1 x 1: every count must be at least 1"),
      shape({.block = {1, 0, 1}}, "every count must be at least 1"),
      shape({.grid = {1, 65536, 1}}, "at most 2147483647 x 65535 x 65535 is possible"),
      shape({.block = 1025}, "at most 1024 x 1024 x 64, and 1024 together, are possible"),
      shape({.block = {32, 32, 2}}, "1024 together"),
      shape({.shared_bytes = 1U << 30}, "bytes of shared memory"),
      shape({.grid = 3, .cluster = 2}, "they must divide the grid"),
      shape({.cluster = 0}, "clusters of 0 x 1 x 1 blocks"),
      shape({.grid = 1U << 30, .block = 1024, .cooperative = true}, "a cooperative launch of"),
      shape(LaunchConfig::cover(10, 0), "every count must be at least 1"),
  });
  const char* const negative = "was the number of threads negative before it became a std::size_t?";
  expect_refused({
      shape({.grid = 0x80000000U}, "at most 2147483647 blocks in x; found 2147483648"),
      {[&] { reprise::launch(stream_, SIZE_MAX, MisusedKernel{}, x_.data(), x_.size()); }, negative},
      {[&] { reprise::launch(stream_, -5, MisusedKernel{}, x_.data(), x_.size()); }, negative},
  });
}

TEST_F(MisusedKernels, ANullPointerToAFunctionIsRefused) {
  const KernelRecord prototype;
  expect_refused({
      {[&] { detail::global_function_record(prototype, typeid(void(int))); },
       "launch expected a __global__ function; found a null pointer to a function of type void (int)"},
      {[&] { launch_host(stream_, {}); }, "launch_host expected a function to call"},
  });
}

TEST_F(MisusedKernels, DeclarationsOfMoreMemoryThanThereIsAreRefused) {
  expect_refused({
      {[&] { writes(x_.data(), SIZE_MAX); }, "writes expected at most "},
      {[&] { writes(x_.data(), SIZE_MAX); },
       "values of 4 bytes each, which end at the last address; found 18446744073709"},
      {[&] { writes(x_.data(), SIZE_MAX / 4); }, "was the count negative before it became a std::size_t?"},
      {[&] { reads(x_.data(), SIZE_MAX / 2); }, "reads expected at most "},
  });
  EXPECT_EQ(reads(x_.data(), 0).bytes, 0U);
  EXPECT_EQ(writes(x_.data(), 10).bytes, 40U);
}

TEST_F(MisusedKernels, TheRaceCheckRefusesPageableMemoryOfTheHost) {
  HostSimulator simulator({.check_races = true});
  const DeviceGuard current(simulator.device());
  std::vector<int> values(10);
  HostBuffer<int> pinned(10);
  const Buffer<int> x(10);
  const auto launch_on = [](int* data, std::size_t n) { reprise::launch(1, Declares{}, data, n); };
  const char* const expected = "Declares expected memory of a device or pinned memory (Buffer, HostBuffer); found 0x";
  CUDAGraph graph = capture([&] { launch_on(values.data(), values.size()); });
  expect_refused({
      {[&] { launch_on(values.data(), values.size()); }, expected},
      {[&] { launch_on(values.data(), values.size()); }, "of which it writes 40 bytes, in pageable memory of the host"},
      {[&] { graph.replay(); }, expected},
  });
  launch_on(x.data(), x.size());
  launch_on(pinned.data(), pinned.size());
  launch_on(values.data(), 0);  // nothing
  launch_on(nullptr, 10);       // a pointer that may be missing
  current_stream().synchronize();
  EXPECT_TRUE(simulator.races().empty());
}

TEST_F(MisusedKernels, TheRaceCheckRefusesAccessesThatWrapAndGoesOn) {
  HostSimulator simulator({.check_races = true});
  const Stream a(simulator.device()), b(simulator.device());
  const Buffer<int> y(10, a);
  const auto declare = [&](std::size_t count) { reprise::launch(a, 1, Declares{}, y.data(), count); };
  const auto declare_bytes = [&](std::size_t bytes) { reprise::launch(a, 1, DeclaresBytes{}, y.data(), bytes); };
  expect_refused({
      {[&] { declare(SIZE_MAX); }, "writes expected at most"},
      {[&] { declare_bytes(SIZE_MAX); }, "the race check expected accesses to at most"},
      {[&] { declare_bytes(SIZE_MAX - 100); }, "DeclaresBytes that writes 18446744073709551515 bytes"},
  });
  declare(10);
  reprise::launch(b, 1, Declares{}, y.data(), std::size_t{10});
  a.synchronize();
  b.synchronize();
  EXPECT_EQ(simulator.races().size(), 1U);
}

}  // namespace
}  // namespace reprise::test
