// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/graphed_backward.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

#include "libtorch/graphed/graphed_function.h"
#include "libtorch/versions/version.h"
#include "text/format.h"

namespace reprise::libtorch::detail {
namespace {

using torch::autograd::variable_list;

// Not a torch::autograd::Function, which handles each argument separately, and costs more.
class GraphedBackward final : public torch::autograd::Node {
 public:
  GraphedBackward(std::shared_ptr<CapturedFunction> function, std::shared_ptr<GraphedCall> call, std::uint64_t versions,
                  torch::autograd::edge_list&& edges)
      : Node(std::move(edges)), function_(std::move(function)), call_(std::move(call)), versions_(versions) {}

  // libtorch's error has it, of an operator whose backward finds a result that it kept overwritten.
  std::string name() const override {
    if (!call_->outputs_lost) return "GraphedBackward";
    const std::string text = text::format(
        "GraphedBackward ({}, whose results were overwritten by {}: run the backward of each call before the next "
        "call, or pass copies (clone) on to what keeps them, or make the callable with Outputs::copy; for several "
        "micro-batches underway, make one callable for each)",
        call_->text(), call_->outputs_lost.text());
    return text;
  }

 private:
  variable_list apply(variable_list&& gradients) override {
    if (c10::GradMode::is_enabled())
      throw UsageError(text::format(
          "backward of {} with create_graph: its gradients cannot be differentiated again, because its backward is a "
          "graph without a backward of its own. Call the original for this.",
          call_->text()));
    variable_list found = function_->backward(*call_, gradients, versions_);
    found.resize(num_outputs());
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!task_should_compute_output(i)) found[i] = at::Tensor();
    return found;
  }

  std::shared_ptr<CapturedFunction> function_;
  std::shared_ptr<GraphedCall> call_;
  std::uint64_t versions_;
};

}  // namespace

void attach_backward(const std::shared_ptr<CapturedFunction>& function, const std::shared_ptr<GraphedCall>& call,
                     std::uint64_t versions, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results) {
  auto edges = torch::autograd::collect_next_edges(arguments, function->parts().watched.trained());
  // A node without any is where a backward ends; autograd has the caller's stream wait for those.
  if (std::none_of(edges.begin(), edges.end(), [](const auto& edge) { return edge.is_valid(); })) edges.clear();
  const version::NodePointer node = version::make_node<GraphedBackward>(function, call, versions, std::move(edges));
  for (const std::size_t each : function->parts().differentiable) torch::autograd::set_history(results[each], node);
}

}  // namespace reprise::libtorch::detail
