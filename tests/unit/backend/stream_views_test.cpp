// SPDX-License-Identifier: Apache-2.0
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// StreamRef made of a handle alone, and views of other libraries.

namespace reprise::backend::test {
namespace {

using graphs::test::contains;
using graphs::test::second_device;
using graphs::test::text_of;

/// As CCCL's cuda::stream_ref.
class OtherView {
 public:
  OtherView(StreamHandle handle) : handle_(handle) {}  // NOLINT(google-explicit-constructor): as that one
  StreamHandle get() const noexcept { return handle_; }

 private:
  StreamHandle handle_;
};

StreamHandle handle(std::uintptr_t value) {
  return reinterpret_cast<StreamHandle>(value);
}

TEST(StreamViews, AStreamIsOfTheDeviceOfItsHandle) {
  const Stream stream(default_device());
  EXPECT_EQ(StreamRef(stream.native()), stream.ref());
}

TEST(StreamViews, AStreamOfAnotherDeviceIsOfThatOne) {
  const auto other = second_device();
  if (!other) GTEST_SKIP() << "there is one device";
  const Stream stream(*other);
  EXPECT_EQ(StreamRef(stream.native()).device(), *other);
}

TEST(StreamViews, AStreamOfASimulatorIsOfThatOne) {
  const HostSimulator simulator;
  const Stream stream(simulator.device());
  EXPECT_EQ(StreamRef(stream.native()).device(), simulator.device());
}

TEST(StreamViews, DefaultStreamsAreOfTheCurrentDevice) {
  const HostSimulator simulator;
  const DeviceGuard guard(simulator.device());
  EXPECT_EQ(StreamRef(handle(0)), simulator.device().default_stream());
  EXPECT_EQ(StreamRef(handle(1)), simulator.device().default_stream());
  EXPECT_EQ(StreamRef(handle(2)).device(), simulator.device());
  EXPECT_EQ(StreamRef(handle(2)).native(), handle(2));
}

TEST(StreamViews, MakingOneOfACapturedStreamBreaksNothing) {
  const Stream stream(default_device());
  Buffer<int> x(1, stream);
  CUDAGraph graph = capture(stream.native(), [&](StreamHandle s) {
    EXPECT_EQ(StreamRef(s), stream.ref());
    x.fill_bytes_async(1, s);
  });
  EXPECT_EQ(graph.node_count(), 1U);
}

TEST(StreamViews, AHandleOfNoDeviceIsRefused) {
  for (const Device device : devices())
    if (device.type() == DeviceType::cuda) GTEST_SKIP() << "a handle that is not known is taken for CUDA's";
  StreamHandle gone = nullptr;
  {
    const Stream stream(default_device());
    gone = stream.native();
  }
  EXPECT_TRUE(contains(text_of<UsageError>([&] { static_cast<void>(StreamRef(gone)); }), "which is of no device"));
}

TEST(StreamViews, ConvertFromAndToThoseOfOtherLibraries) {
  const Stream stream(default_device());
  const OtherView view = stream.ref();
  EXPECT_EQ(view.get(), stream.native());
  const StreamRef back = view;
  EXPECT_EQ(back, stream.ref());
  static_assert(!std::is_constructible_v<StreamRef, int>);
  static_assert(!std::is_constructible_v<StreamRef, std::nullptr_t>);
}

}  // namespace
}  // namespace reprise::backend::test
