// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <string>
#include <utility>

#include "reprise/libtorch/graph.h"
#include "tests/libtorch/host/host_device_fixture.h"
#include "tests/support/text_of.h"

// What the component refuses of devices, streams and generators.

namespace reprise::libtorch::test {
namespace {

using reprise::test::text_of;
using ::testing::HasSubstr;

class TensorMisuse : public OnHostDevice {
 protected:
  static at::Generator generator() { return at::globalContext().getAcceleratorHooksInterface().getNewGenerator(0); }

  Tensor x_ = torch::ones({3}, device_);
  CUDAGraph graph_;
};

TEST_F(TensorMisuse, DevicesThatDoNotExistAreRefused) {
  for (const int index : {-1, 1000}) {
    const std::string text = text_of<UsageError>([&] { static_cast<void>(host_device(index)); });
    EXPECT_THAT(text, HasSubstr("host_device() expected the number of a host device below "));
    EXPECT_THAT(text, HasSubstr("found " + std::to_string(index)));
  }
}

TEST_F(TensorMisuse, AStreamOfADeviceThatIsNoneOfThisLibraryIsRefused) {
  const c10::Stream of_the_cpu(c10::Stream::DEFAULT, torch::Device(torch::kCPU));
  EXPECT_THAT(text_of<UsageError>([&] { static_cast<void>(stream_ref(of_the_cpu)); }), HasSubstr("cpu"));
}

TEST_F(TensorMisuse, GeneratorsOfNoDeviceHereAreRefusedAndTheGraphStaysEmpty) {
  EXPECT_THAT(text_of<UsageError>([&] { register_generator_state(graph_, at::Generator()); }),
              HasSubstr("found an undefined one"));
  EXPECT_THAT(text_of<UsageError>([&] { register_generator_state(graph_, at::detail::createCPUGenerator()); }),
              HasSubstr("found one of cpu"));
  reprise::capture(graph_, [&] { x_.add_(1); });
  graph_.replay();
  EXPECT_TRUE(same(x_, torch::full({3}, 2.0F)));
}

TEST_F(TensorMisuse, GeneratorsAreRegisteredWithEmptyGraphsAlone) {
  const auto refused = [&](CUDAGraph& graph) {
    EXPECT_NE(text_of<UsageError>([&] { register_generator_state(graph, generator()); }), "");
  };
  GraphHooks hooks;
  int calls = 0;
  hooks.before_replay = [&](const StreamRef&) {
    ++calls;
    refused(graph_);
  };
  graph_.add_hooks(hooks);
  reprise::capture(graph_, [&] {
    refused(graph_);
    x_.add_(1);
  });
  refused(graph_);
  graph_.replay();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(same(x_, torch::full({3}, 2.0F)));
  const CUDAGraph moved = std::move(graph_);
  refused(graph_);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace reprise::libtorch::test
