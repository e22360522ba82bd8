// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtorch/graphed/graphed_function.h"
#include "reprise/detail/export.h"

namespace reprise::libtorch::detail {

/// \param maker what the user called, for the error.
/// \throws UsageError if the current stream of the device captures.
REPRISE_EXPORT_INTERNAL void refuse_in_capture(c10::Device device, const std::string& maker);

/// Describes a leaf of autograd's graph, besides the known ones, that a result depends on, if there is one.
REPRISE_EXPORT_INTERNAL std::optional<std::string> leaf_besides(const std::vector<at::Tensor>& known,
                                                                const std::vector<at::Tensor>& results);

/// Makes a CapturedFunction of one callable, step by step:
///
///     GraphedCapture()    checks
///     make_inputs()       allocates what the graph reads
///     warm_up()           runs it eagerly once, forward and backward
///     capture_forward()   keeps the history of what it returned
///     capture_backward()  uses it up; for several, in any order with the forwards of others
///     finish()
///
/// All except the first two on the stream of the captures. An exception in between leaves nothing behind.
class GraphedCapture {
 public:
  /// \param number among those that are made together.
  GraphedCapture(GraphedSource source, std::size_t number, const GraphedCallableOptions& options);

  void make_inputs();
  void warm_up();
  void capture_forward(const StreamRef& stream, const std::shared_ptr<PoolOrder>& order);
  void capture_backward();
  std::shared_ptr<CapturedFunction> finish();

  const GraphedSource& source() const { return source_; }
  const GraphedParts& parts() const { return parts_; }

 private:
  void check_samples() const;
  void check_results(const std::vector<at::Tensor>& results) const;
  void check_memory(const std::vector<at::Tensor>& leaves, const std::vector<const void*>& memory) const;
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& leaves) const;
  void check_history(const std::vector<at::Tensor>& results) const;
  void check_changed_samples() const;
  void check_used(const std::vector<at::Tensor>& gradients) const;
  std::vector<at::Tensor> fresh_leaves() const;
  std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& results,
                                       const std::vector<at::Tensor>& result_gradients) const;
  void give_own_memory(std::vector<at::Tensor>& results) const;
  void give_own_memory_to_gradients();
  void keep_memory();
  GraphOptions graph_options() const;
  void capture(CUDAGraph& graph, const std::function<void()>& body) const;
  std::string leaf_name(std::size_t leaf) const;

  GraphedSource source_;
  GraphedParts parts_;
  std::optional<StreamRef> stream_;           // of the captures
  std::vector<at::Tensor> leaves_, results_;  // of the captured forward, until the backward is captured
};

}  // namespace reprise::libtorch::detail
