// SPDX-License-Identifier: Apache-2.0
#include "graph/capture/warm_up.h"

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "backend/user_code.h"
#include "graph/capture/framework_captures.h"
#include "reprise/error.h"
#include "reprise/random.h"
#include "text/format.h"

namespace reprise::graphs {
namespace {

/// The state of the generators that a warm-up restores.
class SavedGenerators {
 public:
  SavedGenerators(Device device, const std::vector<Generator>& generators, const FrameworkListeners* listeners) {
    saved_.emplace_back(default_generator(device), GeneratorState{});
    for (const Generator& generator : generators) saved_.emplace_back(generator, GeneratorState{});
    for (auto& [generator, state] : saved_) state = generator.get_state();
    if (const auto* const framework = framework_captures()) of_framework_ = framework->save_generators(device);
    if (listeners != nullptr) registered_ = listeners->save_generators();
  }
  ~SavedGenerators() {
    for (auto& [generator, state] : saved_) restore(generator, state);
  }
  SavedGenerators(const SavedGenerators&) = delete;
  SavedGenerators& operator=(const SavedGenerators&) = delete;

 private:
  static void restore(Generator& generator, const GeneratorState& state) noexcept try {
    if (generator.get_state() != state) generator.set_state(state);
  } catch (const std::exception& error) {
    warn(error.what());
  }

  std::vector<std::pair<Generator, GeneratorState>> saved_;
  // These restore in their destructors.
  std::shared_ptr<void> of_framework_;
  std::shared_ptr<void> registered_;
};

const StreamRef& require_not_capturing(const GraphOptions& options, const StreamRef& current) {
  if (options.warmup < 0)
    throw UsageError(
        text::format("capture: GraphOptions::warmup expects a number of runs, 0 or more; found {}.", options.warmup));
  if (current.capture_status() != CaptureStatus::none)
    throw UsageError(
        "capture: GraphOptions::warmup runs the body before the capture, ordered after the current stream, and that "
        "one is being captured. Capture without a warm-up, or before the other capture.");
  return current;
}

}  // namespace

WarmUp::WarmUp(const GraphOptions& options, const CaptureBody& body, const FrameworkListeners* framework)
    : before_(
          require_not_capturing(options, options.stream ? current_stream(options.stream->device()) : current_stream())),
      stream_(options.stream ? *options.stream : internal_.emplace(before_.device()).ref()),
      current_(stream_) {
  stream_.wait(before_);
  const SavedGenerators generators(stream_.device(), options.generators, framework);
  const auto* const captures = framework_captures();
  const std::shared_ptr<void> watch = captures != nullptr ? captures->watch_warm_up(stream_) : nullptr;
  const backend::UserCode user_code;
  for (int i = 0; i < options.warmup; ++i) body(stream_);
}

WarmUp::Order::~Order() {
  try {
    before.wait(stream);
  } catch (const std::exception& error) {
    warn(text::format("The end of a capture with GraphOptions::warmup: {}", error.what()));
  }
}

}  // namespace reprise::graphs
