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
  TensorInputs() = default;
  ~TensorInputs() override { close(); }
  TensorInputs(const TensorInputs&) = delete;
  TensorInputs& operator=(const TensorInputs&) = delete;

  void started(captures::Capture& capture) override;
  void ended(GraphHandle template_graph) override;
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
  void close() noexcept {
    if (operators_ != nullptr) operators_->close();
  }

  std::shared_ptr<OperatorInputs> operators_;
};

}  // namespace reprise::libtorch
