// SPDX-License-Identifier: Apache-2.0
// Trains a network on hand-written digits twice, from the same start: eagerly, each kernel of each step launched by
// itself, and with the whole step captured once and replayed. Shows the cost of each, that both have bitwise the same
// weights, and a picture of the step.

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "dataset.h"
#include "errors.h"
#include "options.h"
#include "picture.h"
#include "reprise/reprise.h"
#include "trainer.h"

namespace digits {
namespace {

enum ExitCode : int { success = 0, failure = 1, bad_input = 2 };

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = fmt::format(format, std::forward<Args>(args)...);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

reprise::Device choose_device(const Options& options) {
  try {
    return options.device ? reprise::Device::parse(*options.device) : reprise::default_device();
  } catch (const reprise::UsageError& error) {
    throw InputError(fmt::format("{}{}", options.device ? "--device: " : "", error.what()));
  }
}

/// The user's input, checked before any work is done.
struct Input {
  explicit Input(const Options& given)
      : options(given), device(choose_device(given)), dataset(load_dataset(given.data)) {
    if (options.batch > dataset.train.count())
      throw InputError(fmt::format("--batch: expected at most {}, the number of training images, found {}",
                                   dataset.train.count(), options.batch));
    check_picture_path(options.svg);
  }

  Options options;
  reprise::Device device;
  Dataset dataset;
};

void show_header(const Input& input, const Trainer& trainer) {
  const Options& options = input.options;
  say("Hand-written digits, network {}-{}-{}-{}\n", pixels_per_image, hidden, hidden, classes);
  say("  device    {} ({})\n", input.device.str(), input.device.name());
  say("  images    {} to train on, {} held out\n", input.dataset.train.count(), input.dataset.test.count());
  say("  training  {} epoch{} of {} step{}, {} image{} a step, learning rate {:.3g}, dropout {:.3g}, seed {}\n\n",
      options.epochs, options.epochs == 1 ? "" : "s", trainer.steps_per_epoch(),
      trainer.steps_per_epoch() == 1 ? "" : "s", options.batch, options.batch == 1 ? "" : "s", trainer.rate(),
      options.dropout, options.seed);
}

void show_row(const char* label, const Run& run) {
  say("{:<8} {:>12.1f} us {:>13.2f} us {:>10.4f} {:>12.2f} %\n", label, 1e6 * run.step_seconds,
      1e6 * run.submit_seconds, run.loss, 100 * run.accuracy);
}

void show_comparison(const Run& eager, const Run& replayed) {
  say("\n{:<8} {:>15} {:>16} {:>10} {:>14}\n", "", "a step takes", "the host's part", "loss", "test accuracy");
  show_row("eager", eager);
  show_row("replayed", replayed);
  say("{:<8} {:>13.2f} x {:>14.2f} x\n", "ratio", eager.step_seconds / replayed.step_seconds,
      eager.submit_seconds / replayed.submit_seconds);
  say("Times are medians over the epochs of an epoch's mean: a step until the device is done, and of that what it\n"
      "takes the host to hand the step over.{}\n\n",
      reprise::default_device().type() == reprise::DeviceType::host
          ? " The device is simulated, so the ratios say nothing about a GPU."
          : "");
}

void show_inputs(const reprise::CUDAGraph& graph) {
  std::size_t bytes = 0;
  const auto inputs = graph.inputs();
  for (const reprise::GraphInput& input : inputs) bytes += input.bytes;
  say("inputs    {} pieces of memory, {:.1f} KiB, all there at each replay\n", inputs.size(),
      static_cast<double>(bytes) / 1024);
}

/// The times of a step's phases in one more replay.
void show_phases(reprise::CUDAGraph& graph) try {
  const reprise::ReplayTiming timing = reprise::time_replay(graph);
  say("phases    of a step on the device, {:.1f} us in all; what runs at the same time counts twice\n",
      timing.total_us);
  for (const reprise::AnnotationTiming& phase : timing.annotations)
    say("          {:<10} {:>2} node{} {:>10.1f} us\n", phase.annotation.at("name"), phase.nodes,
        phase.nodes == 1 ? " " : "s", phase.duration_us);
} catch (const reprise::UsageError&) {
  throw;
} catch (const reprise::BackendError&) {
  throw;
} catch (const reprise::Error& error) {
  say("phases    not timed: {}\n", error.what());
}

/// Compares bitwise, including NaN.
bool same_bits(const Run& a, const Run& b) {
  return a.parameters.size() == b.parameters.size() &&
         std::memcmp(a.parameters.data(), b.parameters.data(), a.parameters.size() * sizeof(float)) == 0;
}

ExitCode train(const Input& input) {
  const reprise::Stream stream(input.device);
  const reprise::StreamGuard guard(stream);
  Trainer trainer(input.dataset, input.options.batch, input.options.dropout, input.options.seed);
  show_header(input, trainer);

  const Run eager = trainer.run("eager", input.options.epochs, [&] { trainer.step(); });

  reprise::CUDAGraph graph;
  graph.enable_debug_mode();  // for a picture with the shape of each launch
  const auto begin = std::chrono::steady_clock::now();
  reprise::GraphOptions options;
  options.enable_annotations = true;
  options.check_input_liveness = input.options.liveness;
  reprise::capture(graph, options, [&] { trainer.step(); });
  const std::chrono::duration<double, std::micro> capture_time = std::chrono::steady_clock::now() - begin;
  const Run replayed = trainer.run("replayed", input.options.epochs, [&] { graph.replay(); });

  show_comparison(eager, replayed);
  const bool same = same_bits(eager, replayed);
  say("weights   {} ({} values compared)\n", same ? "bitwise the same" : "NOT the same", parameter_count);
  say("graph     {} nodes, captured and instantiated in {:.0f} us\n", graph.node_count(), capture_time.count());
  if (input.options.liveness) show_inputs(graph);
  show_phases(graph);
  say("picture   {}\n", write_picture(graph, input.options.svg));
  return same ? success : failure;
}

ExitCode run(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  return options ? train(Input(*options)) : success;
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  try {
    const int exit_code = digits::run(argc, argv);
    // Output that is lost, as on a full disk, is a failure.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw std::runtime_error("standard output cannot be written");
    return exit_code;
  } catch (const digits::InputError& error) {
    std::fprintf(stderr, "train_digits: error: %s\n", error.what());
    return digits::bad_input;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits: failed: %s\n", error.what());
    return digits::failure;
  }
}
