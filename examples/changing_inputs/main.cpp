// SPDX-License-Identifier: Apache-2.0
// A graph whose inputs lie elsewhere in each step. The usual way copies them to the memory that was captured; here the
// addresses in the graph are set instead, and nothing is copied. Runs on any device, also without a GPU. Shows that
// both have the result of the host, and the cost of a step both ways.

#include <optional>
#include <string>
#include <vector>

#include "reprise/reprise.h"
#include "support/program.h"
#include "weighted_sum.h"

namespace changing_inputs {
namespace {

using example::microseconds;
using example::say;

struct Options {
  std::optional<std::string> device;
  std::size_t inputs = 8;
  std::size_t values = 1 << 16;
};

constexpr unsigned steps = 4;  // each with inputs of its own

/// One graph, and the two ways to have it read other inputs.
class Step {
 public:
  Step(const Options& options, const reprise::StreamRef& stream)
      : stream_(stream), captured_(make_inputs(options.inputs, options.values, 0)), sum_(options.values) {
    graph_ = reprise::capture([&](reprise::StreamRef here) { sum_.run(captured_, here); });
    for (const reprise::Buffer<float>& x : captured_) addresses_.push_back(graph_.parameter(x.data()));
  }

  /// Copies the inputs to the memory that was captured.
  void replay_copied(const Inputs& inputs) {
    set(captured_);  // nothing changes, unless the last step was patched
    for (std::size_t i = 0; i < inputs.size(); ++i)
      reprise::copy_async(captured_[i].data(), inputs[i].data(), inputs[i].size_bytes(), stream_);
    graph_.replay(stream_);
  }
  /// Has the graph read the inputs where they are.
  void replay_patched(const Inputs& inputs) {
    set(inputs);
    graph_.replay(stream_);
  }

  bool is_right(const Inputs& inputs, unsigned step) const {
    return sum_.result(stream_) == sum_.expected(inputs.size(), step);
  }

 private:
  void set(const Inputs& inputs) {
    std::vector<reprise::ParameterValue> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) values.emplace_back(addresses_[i], inputs[i].data());
    graph_.set(values);
  }

  const reprise::StreamRef stream_;
  const Inputs captured_;
  WeightedSum sum_;
  reprise::CUDAGraph graph_;
  std::vector<reprise::Parameter<float*>> addresses_;
};

bool run(const Options& options) {
  const reprise::Device device = options.device ? example::parse_device(*options.device) : reprise::default_device();
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);
  say("device    {} ({})\n", device.str(), device.name());
  say("step      reads {} inputs of {} bytes each, other ones each time\n", options.inputs,
      options.values * sizeof(float));

  std::vector<Inputs> inputs;
  for (unsigned step = 0; step < steps; ++step) inputs.push_back(make_inputs(options.inputs, options.values, step));
  Step work(options, stream);
  bool copied = true, patched = true;
  for (unsigned step = 0; step < steps; ++step) {
    work.replay_copied(inputs[step]);
    copied &= work.is_right(inputs[step], step);
    work.replay_patched(inputs[step]);
    patched &= work.is_right(inputs[step], step);
  }
  say("copied    {}\n", copied ? "the same as on the host" : "NOT the same as on the host");
  say("patched   {}\n", patched ? "the same as on the host" : "NOT the same as on the host");

  constexpr unsigned calls = 200;
  unsigned next = 0;
  const double with_copies = microseconds(calls, [&] { work.replay_copied(inputs[++next % steps]); });
  const double with_patches = microseconds(calls, [&] { work.replay_patched(inputs[++next % steps]); });
  say("time      {:.1f} us a step with copies, {:.1f} us with patches, {:.2f} x\n", with_copies, with_patches,
      with_copies / with_patches);
  return copied && patched;
}

}  // namespace
}  // namespace changing_inputs

int main(int argc, char** argv) {
  changing_inputs::Options options;
  CLI::App app("A graph whose inputs lie elsewhere in each step: copied to where it reads, or set in the graph.",
               "changing_inputs");
  app.add_option("--device", options.device,
                 "Where to run: host, cuda, cuda:1, ... (default: the first CUDA device, or "
                 "else the simulated host device)")
      ->type_name("DEVICE");
  app.add_option("--inputs", options.inputs, "Inputs of a step")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  app.add_option("--values", options.values, "Values of each input")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  return example::run(app, argc, argv, [&] { return changing_inputs::run(options); });
}
