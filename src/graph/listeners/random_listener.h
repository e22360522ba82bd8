// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "graph/listeners/draws_listener.h"
#include "random/generator_impl.h"

namespace reprise::graphs {

/// Random numbers: generators take part in the capture when something draws from them, and in the replays of its graph.
class RandomListener final : public DrawsListener {
 public:
  ~RandomListener() override { reset(); }
  /// The captures of this graph keep the generator from being set, from their beginning on.
  void register_generator(const Generator& generator) {
    if (std::ranges::count(registered_, generator) == 0) registered_.push_back(generator);
  }

  void started(const CaptureContext& context) override {
    draws_ = std::make_shared<random::CaptureDraws>();
    random::CaptureDraws::open(*context.capture, draws_);
    for (const Generator& generator : registered_) draws_->hold(generator.impl());
  }
  void ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) override {
    draws_->close();
    draws_->finish();
    if (draws_->empty()) draws_.reset();
  }
  void reset() noexcept override {
    if (draws_ != nullptr) draws_->close();
    draws_.reset();
  }

 private:
  std::vector<Generator> registered_;
};

}  // namespace reprise::graphs
