// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "reprise/device.h"
#include "reprise/stream.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise {
namespace {

using memory::test::new_device;
using memory::test::RawCapture;
using memory::test::text_of;
using ::testing::HasSubstr;

TEST(DeviceTest, IsFoundByItsName) {
  const Device device = Device::parse("host");
  EXPECT_EQ(device, Device::parse("host:0"));
  EXPECT_EQ(device.type(), DeviceType::host);
  EXPECT_EQ(device.index(), 0);
  EXPECT_EQ(device.str(), "host:0");
  EXPECT_FALSE(device.name().empty());
}

TEST(DeviceTest, ANumberThatThereIsNotIsRefused) {
  EXPECT_THAT(text_of<UsageError>([] { Device::parse("host:16"); }), HasSubstr("REPRISE_HOST_DEVICES"));
  EXPECT_THROW(Device::parse("cuda:4000"), UsageError);
}

TEST(DeviceTest, AllHaveNamesThatFindThem) {
  ASSERT_FALSE(devices().empty());
  for (const Device device : devices()) EXPECT_EQ(Device::parse(device.str()), device);
}

TEST(DeviceTest, CudaDevicesComeFirst) {
  const std::vector<Device> all = devices();
  EXPECT_TRUE(std::is_partitioned(all.begin(), all.end(), [](Device d) { return d.type() == DeviceType::cuda; }));
  EXPECT_EQ(all.back().type(), DeviceType::host);
}

TEST(DeviceTest, TellsItsMemory) {
  const MemoryInfo info = Device::parse("host").memory_info();
  EXPECT_GT(info.total, 0u);
  EXPECT_LE(info.free, info.total);
}

TEST(DeviceTest, SynchronizeWaitsForAllStreams) {
  const Device device = Device::parse("host");
  const Stream stream(device);
  test::Gate gate;
  (void)device.backend().launch_host_function({&test::Gate::pass, &gate}, stream.native());
  EXPECT_FALSE(stream.query());
  std::thread opener([&] { gate.open(); });
  device.synchronize();
  EXPECT_TRUE(stream.query());
  opener.join();
}

TEST(CurrentDevice, IsTheDefaultOneOutsideOfAllGuards) {
  EXPECT_EQ(current_device(), default_device());
}

TEST(CurrentDevice, IsThatOfTheInnermostGuard) {
  const Device first(new_device()), second(new_device());
  {
    const DeviceGuard guard(first);
    EXPECT_EQ(current_device(), first);
    {
      const StreamGuard inner(second.default_stream());
      EXPECT_EQ(current_device(), second);
    }
    EXPECT_EQ(current_device(), first);
  }
  EXPECT_EQ(current_device(), default_device());
}

TEST(CurrentDevice, IsEachThreadsOwn) {
  const DeviceGuard guard{Device(new_device())};
  std::thread([] { EXPECT_EQ(current_device(), default_device()); }).join();
}

// The environment is read once, so each of these has a process of its own.
class DefaultDevice : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  static void expect_true_in_own_process(bool (*body)()) {
    EXPECT_EXIT(std::_Exit(body() ? 0 : 1), ::testing::ExitedWithCode(0), "");
  }
};

TEST_F(DefaultDevice, IsTheOneThatTheEnvironmentNames) {
  expect_true_in_own_process([] {
    setenv("REPRISE_HOST_DEVICES", "2", 1);
    setenv("REPRISE_DEVICE", "host:1", 1);
    return default_device() == Device::parse("host:1") && current_device() == default_device();
  });
}

TEST_F(DefaultDevice, IsTheFirstOneIfTheEnvironmentNamesNone) {
  expect_true_in_own_process([] {
    setenv("REPRISE_DEVICE", "", 1);
    return default_device() == devices().front();
  });
}

TEST_F(DefaultDevice, IsRefusedIfTheEnvironmentNamesOneThatThereIsNot) {
  expect_true_in_own_process([] {
    setenv("REPRISE_DEVICE", "host:7", 1);
    try {
      default_device();
      return false;
    } catch (const UsageError& error) {
      return std::string(error.what()).find("REPRISE_DEVICE") != std::string::npos;
    }
  });
}

}  // namespace
}  // namespace reprise
