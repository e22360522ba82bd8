// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>
#include <vector>

#include "graph/listeners/draws_listener.h"
#include "libtorch/cuda/cuda_generator.h"

namespace reprise::libtorch {

/// Random numbers of libtorch's CUDA generators: the default one of the capture's device and those that were registered
/// take part from the beginning of each capture. The number of draws is known at its end: then the graph gets a head
/// node for each generator that was drawn from, and replays continue at the generator's offset.
class CudaRandomListener final : public graphs::DrawsListener {
 public:
  ~CudaRandomListener() override { abandon(); }
  void register_generator(const at::Generator& generator);

  void begin(const graphs::CaptureContext& context) override;
  void ended(const graphs::CaptureContext& context, GraphHandle template_graph) override;
  void reset() noexcept override {
    abandon();
    draws_.reset();
  }

 private:
  struct Lent {
    std::shared_ptr<CudaGenerator> generator;
    random::Words words;
  };

  void lend_to_default(const graphs::CaptureContext& context);
  void lend_to_registered(const graphs::CaptureContext& context);
  bool attach(const std::shared_ptr<CudaGenerator>& generator);
  /// For an unknown number of draws: throws unless the graph draws nothing.
  void refuse_draws(const Lent& lent, GraphHandle template_graph) const;
  void abandon() noexcept;

  std::vector<at::Generator> registered_;
  std::vector<Lent> lent_;                     // while a capture is underway
  std::optional<ConflictingDraws> conflicts_;  // likewise, if another capture has the default generator
};

}  // namespace reprise::libtorch
