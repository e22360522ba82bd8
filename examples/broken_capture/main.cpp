// SPDX-License-Identifier: Apache-2.0
// A capture with the most frequent mistake: a value is read on the host while the stream is being captured. Shows the
// capture's report, and that the graph works once the mistake is fixed. Runs on any device.

#include <optional>
#include <string>

#include "reprise/reprise.h"
#include "support/program.h"

namespace broken_capture {

using example::say;

/// Returns the first value on the host. Waits for the stream, which is not possible while that is being captured. Not
/// inlined, so that its name is in the report's stack.
[[gnu::noinline]] unsigned char first_value(const reprise::Buffer<unsigned char>& x) {
  unsigned char value = 0;
  reprise::copy_async(&value, x.data(), 1);
  reprise::current_stream().synchronize();
  return value;
}

void step(reprise::Buffer<unsigned char>& x, bool with_mistake) {
  x.fill_bytes_async(7);
  if (with_mistake && first_value(x) > 0) x.fill_bytes_async(8);
}

bool run(const std::optional<std::string>& device_text) {
  const reprise::Device device = device_text ? example::parse_device(*device_text) : reprise::default_device();
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);
  reprise::Buffer<unsigned char> x(1024);
  reprise::CUDAGraph graph;

  bool failed = false;
  try {
    reprise::capture(graph, [&] { step(x, true); });
  } catch (const reprise::Error&) {
    failed = true;
    if (graph.capture_report()) say("{}", graph.capture_report()->str());
  }
  reprise::capture(graph, [&] { step(x, false); });
  graph.replay(stream);
  const bool right = first_value(x) == 7;
  say("\nfixed: {} node, and a replay that is {}\n", graph.node_count(), right ? "right" : "WRONG");
  return failed && right;
}

}  // namespace broken_capture

int main(int argc, char** argv) {
  std::optional<std::string> device;
  CLI::App app("A capture that fails, what its report says, and the same capture fixed.", "broken_capture");
  app.add_option("--device", device,
                 "Where to run: host, cuda, cuda:1, ... (default: the first CUDA device, or else the simulated host "
                 "device)")
      ->type_name("DEVICE");
  return example::run(app, argc, argv, [&] { return broken_capture::run(device); });
}
