// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/graphed_history.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

#include "text/format.h"

namespace reprise::libtorch::detail {

std::optional<std::string> leaf_besides(const std::vector<at::Tensor>& known, const std::vector<at::Tensor>& results) {
  std::unordered_set<const c10::TensorImpl*> leaves;
  for (const at::Tensor& each : known) leaves.insert(each.unsafeGetTensorImpl());
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> ahead;
  const auto go_to = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) ahead.push_back(node);
  };
  for (const at::Tensor& each : results)
    if (each.defined() && each.requires_grad()) go_to(torch::autograd::impl::gradient_edge(each).function.get());
  while (!ahead.empty()) {
    torch::autograd::Node* const node = ahead.back();
    ahead.pop_back();
    if (const auto* const leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node); leaf != nullptr) {
      const at::Tensor& tensor = leaf->variable;
      if (!leaves.contains(tensor.unsafeGetTensorImpl()))
        return text::format("a tensor {} [{}] on {}", c10::toString(tensor.scalar_type()),
                            text::join(tensor.sizes(), ", "), tensor.device().str());
    }
    for (const auto& edge : node->next_edges()) go_to(edge.function.get());
  }
  return std::nullopt;
}

}  // namespace reprise::libtorch::detail
