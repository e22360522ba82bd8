// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <vector>

#include "graph/listeners/draws_listener.h"
#include "libtorch/cuda/cuda_generator.h"
#include "random/lent_words.h"

namespace reprise::libtorch {

/// Random numbers of libtorch's CUDA generators: the default one of the capture's device and those that were registered
/// take part from the beginning of each capture. The number of draws is known at its end: then the graph gets a head
/// node for each generator that was drawn from, and replays continue at the generator's offset.
class CudaRandomListener final : public graphs::DrawsListener<CudaRandomListener> {
 public:
  ~CudaRandomListener() override { abandon(); }
  void register_generator(const at::Generator& generator);
  /// The state of those that were registered: destroying the result restores it. Null if there are none.
  std::shared_ptr<void> save_generators() const;

  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void body_began(captures::Capture& capture, const captures::Body& body) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void inherit_from(const CudaRandomListener& before) override { registered_ = before.registered_; }
  void reset() noexcept override {
    abandon();
    draws_.reset();
  }

 private:
  struct Attached {
    std::shared_ptr<CudaGenerator> generator;
    memory::DeviceWords words;
  };

  void attach_default(const captures::Capture& capture);
  void attach_registered(const captures::Capture& capture);
  bool attach(const std::shared_ptr<CudaGenerator>& generator);
  /// For an unknown number of draws: throws unless the graph draws nothing.
  void refuse_draws(const Attached& attached, GraphHandle template_graph) const;
  /// Throws if the body of a while_ draws: each iteration would draw the same numbers.
  void refuse_draws_in_loops(const captures::Capture& capture, const Attached& attached,
                             GraphHandle template_graph) const;
  /// Throws if the graph reads words of another capture.
  void refuse_draws_of_others(const Device& device, GraphHandle template_graph) const;
  void abandon() noexcept;

  std::vector<at::Generator> registered_;
  std::vector<Attached> attached_;            // while a capture is underway
  std::shared_ptr<random::LentWords> words_;  // likewise
  bool default_is_taken_ = false;             // by another capture
};

}  // namespace reprise::libtorch
