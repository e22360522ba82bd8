// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "inspect/liveness/input_source.h"
#include "libtorch/operators/operator_inputs.h"

namespace reprise::libtorch {

/// The arguments of operators in a capture as a source of inputs: pinned memory, whose frees no allocator notifies. It
/// is alive as long as a storage of one of those tensors has it.
class TensorInputs : public inspect::InputSource {
 public:
  void started(captures::Capture& capture) override { operators_ = open_watch<OperatorInputs>(capture, kept()); }
  void ended(GraphHandle template_graph) override { operators_->look_at(template_graph); }
  void find(std::span<memory::UsedAddress> addresses) override;
  void found() noexcept override { operators_->release_kept(); }
  bool is_used(GraphNodeHandle /*node*/, const memory::BlockWatch& /*watch*/, std::uintptr_t /*address*/) override {
    return true;
  }

 protected:
  const OperatorInputs& operators() const { return *operators_; }
  /// As OperatorInputs takes it.
  virtual std::optional<OperatorInputs::Ranges> kept() { return {}; }

 private:
  std::shared_ptr<OperatorInputs> operators_;
};

}  // namespace reprise::libtorch
