// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/leaf_streams.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "libtorch/tensor_device.h"
#include "support/immortal.h"

namespace reprise::libtorch {
namespace {

using torch::autograd::AccumulateGrad;

class RenewedLeaves;

struct Watching {
  std::mutex mutex;  // guards the rest, and what is in the objects
  std::vector<RenewedLeaves*> all;
  std::optional<at::CallbackHandle> callback;  // while there are any
};

// Never destroyed: threads of autograd may run until the process ends.
Watching& watching() {
  static support::Immortal<Watching> instance;
  return *instance;
}

class RenewedLeaves {
 public:
  explicit RenewedLeaves(const StreamRef& stream) : stream_(stream) {
    Watching& now = watching();
    const std::lock_guard lock(now.mutex);
    now.all.push_back(this);
    if (!now.callback)
      now.callback =
          at::addGlobalCallback(at::RecordFunctionCallback(&node_begins).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~RenewedLeaves() {
    Watching& now = watching();
    {
      const std::lock_guard lock(now.mutex);
      std::erase(now.all, this);
      if (now.all.empty()) at::removeCallback(*std::exchange(now.callback, std::nullopt));
    }
    for (const LeafElsewhere& each : found_)
      if (each.node->pre_hooks().empty() && each.node->post_hooks().empty() &&
          torch::autograd::impl::try_get_grad_accumulator(each.leaf) == each.node)
        version::set_grad_accumulator(each.leaf, {});
  }
  RenewedLeaves(const RenewedLeaves&) = delete;
  RenewedLeaves& operator=(const RenewedLeaves&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> node_begins(const at::RecordFunction& /*node*/) {
    for_each_leaf_elsewhere([](const LeafElsewhere& found) {
      Watching& now = watching();
      const std::lock_guard lock(now.mutex);
      for (RenewedLeaves* const each : now.all)
        if (each->stream_ == found.from) each->found_.push_back(found);
    });
    return nullptr;
  }

  const StreamRef stream_;
  std::vector<LeafElsewhere> found_;
};

}  // namespace

void for_each_leaf_elsewhere(const std::function<void(const LeafElsewhere&)>& visit) {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return;
  std::optional<c10::Stream> from;
  for (const torch::autograd::Edge& edge : node->next_edges()) {
    const auto* const leaf = dynamic_cast<const AccumulateGrad*>(edge.function.get());
    if (leaf == nullptr) continue;
    if (!from) from = node->stream();
    const std::optional<c10::Stream> to = edge.function->stream();
    if (!from || !to || *from == *to || from->device() != to->device()) continue;
    visit({leaf->variable, edge.function, stream_ref(*from), stream_ref(*to)});
  }
}

std::shared_ptr<void> renew_leaves_after(const StreamRef& stream) {
  return std::make_shared<RenewedLeaves>(stream);
}

}  // namespace reprise::libtorch
