// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtorch/graphed/lent_tensors.h"
#include "libtorch/graphed/pool_order.h"
#include "libtorch/graphed/staged_tensors.h"
#include "libtorch/graphed/watched_modules.h"
#include "reprise/graph.h"
#include "reprise/libtorch/graphed_callables.h"
#include "reprise/stream.h"

namespace reprise::libtorch::detail {

/// The captures of one callable, and their conditions. Tensors here have no history.
struct GraphedParts {
  /// "callable 0 (torch::nn::LinearImpl)"; shared with calls, which may outlive the callable.
  std::shared_ptr<const std::string> name;
  std::vector<std::string> argument_names;  ///< of each tensor: "argument 0", "argument 1, tensor 2"
  WatchedModules watched;
  c10::Device device;
  GraphedCallableOptions options;
  std::shared_ptr<PoolOrder> order = {};
  std::size_t order_number = 0;

  bool grad_mode = false;
  bool autocast = false;
  c10::ScalarType autocast_type = c10::ScalarType::Undefined;

  CUDAGraph forward = CUDAGraph();
  std::vector<at::Tensor> inputs = {};   ///< tensors that the forward graph reads
  StagedTensors staged_inputs = {};      ///< the copies into `inputs`
  std::vector<char> mutated = {};        ///< by input: the callable changes it in place
  std::vector<at::Tensor> outputs = {};  ///< tensors that the forward graph writes
  std::vector<char> saved = {};          ///< by output: the backward may read it
  FreshCopies fresh_outputs = {};        ///< with Outputs::copy

  std::optional<CUDAGraph> backward = {};
  std::vector<std::size_t> differentiable = {};   ///< numbers of the outputs that have a gradient
  std::vector<at::Tensor> output_gradients = {};  ///< of the differentiable outputs, which the backward graph reads
  StagedTensors staged_gradients = {};            ///< the copies into `output_gradients`
  std::vector<at::Tensor> gradients = {};         ///< with Gradients::alias: as fresh_gradients, in the graph's memory
  FreshCopies fresh_gradients = {};               ///< of all inputs, then of all trained parameters
};

/// A graphed callable on flat rows of tensors.
///
///     call()      checks, stages the arguments, runs the forward, returns the results
///     backward()  stages the gradients of the results, runs the backward, returns gradients; called by autograd,
///                 on its thread and on the stream of the call
///
/// Used by one thread at a time, together with all others in the pool; a call within another one is refused.
class CapturedFunction final : public GraphedFunction, public std::enable_shared_from_this<CapturedFunction> {
 public:
  explicit CapturedFunction(GraphedParts parts);

  CapturedFunction(const CapturedFunction&) = delete;
  CapturedFunction& operator=(const CapturedFunction&) = delete;

  bool in_captured_mode() const override { return parts_.watched.in_same_mode(); }
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& arguments) override;
  const std::vector<at::Tensor>& static_arguments() const override { return parts_.inputs; }
  CUDAGraph& forward_graph() override { return parts_.forward; }
  CUDAGraph& backward_graph() override;
  std::vector<const CUDAGraph*> graphs() const override;
  std::uint64_t captured_bytes() const noexcept override { return bytes_; }
  void set_captured_bytes(std::uint64_t bytes) noexcept { bytes_ = bytes; }
  void check_changed_memory(const std::vector<at::Tensor>& arguments) const override;
  [[noreturn]] void refuse_arguments(std::vector<std::string> differences,
                                     const std::vector<at::Tensor>& tensors) const override;
  [[noreturn]] void refuse_mode() const override;
  /// \param versions versions() after the staging of the call.
  std::vector<at::Tensor> backward(const GraphedCall& call, const std::vector<at::Tensor>& output_gradients,
                                   std::uint64_t versions);

  const GraphedParts& parts() const { return parts_; }

 private:
  void check_arguments(const std::vector<at::Tensor>& arguments) const;
  void check_surroundings(bool wants_gradients) const;
  bool wants_gradients(const std::vector<at::Tensor>& arguments) const;
  void stage(const std::vector<at::Tensor>& arguments);
  void stage_gradients(const std::vector<at::Tensor>& output_gradients);
  void write_back(const std::vector<at::Tensor>& arguments) const;
  std::vector<at::Tensor> lend_outputs(const std::shared_ptr<GraphedCall>& call) const;
  void check_backward(const GraphedCall& call, std::uint64_t versions) const;
  std::uint64_t versions() const;

  GraphedParts parts_;
  const Device device_;
  bool mutates_ = false;  // any of the inputs
  std::atomic_flag in_call_;
  std::uint64_t calls_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<at::Tensor> copied_;  // arguments that would be overwritten by staging others, until the launch
  std::vector<char> zero_;          // by output gradient: it is all zero
};

}  // namespace reprise::libtorch::detail
