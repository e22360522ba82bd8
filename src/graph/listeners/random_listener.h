// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "graph/listeners/draws_listener.h"
#include "random/generator_impl.h"

namespace reprise::graphs {

/// Random numbers: generators take part in the capture when something draws from them, and in the replays of its graph.
class RandomListener final : public DrawsListener<RandomListener> {
 public:
  /// The captures of this graph keep the generator from being set, from their beginning on.
  void register_generator(const Generator& generator) {
    if (std::ranges::count(registered_, generator) == 0) registered_.push_back(generator);
  }

  const std::vector<Generator>& registered() const noexcept { return registered_; }

  void started(captures::Capture& capture) override {
    for (const Generator& generator : registered_) random::CaptureDraws::hold(capture, generator.impl());
    for (const Generator& generator : capture.options().generators)
      random::CaptureDraws::hold(capture, generator.impl());
  }
  void body_ends(captures::Capture& capture, const captures::Body& body) override {
    random::CaptureDraws::end_body(capture, body);
  }
  void ended(captures::Capture& capture, CapturedGraph& graph) override {
    keep(random::CaptureDraws::end(capture), graph);
  }
  void abandoned(captures::Capture& capture) noexcept override {
    random::CaptureDraws::end(capture);
    reset();
  }
  void inherit_from(const RandomListener& before) override { registered_ = before.registered_; }
  void reset() noexcept override { draws_.reset(); }

 private:
  std::vector<Generator> registered_;
};

}  // namespace reprise::graphs
