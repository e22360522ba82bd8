// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/pool_order.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "support/immortal.h"
#include "text/format.h"

namespace reprise::libtorch {

std::string Overwritten::text() const {
  if (used_up) return "its own backward, which uses it up";
  return call == 0 ? "a backward of " + *by : text::format("call {} of {}", call, *by);
}

std::shared_ptr<PoolOrder> PoolOrder::of(MempoolId pool) {
  struct Known {
    std::mutex mutex;
    std::map<MempoolId, std::weak_ptr<PoolOrder>> orders;
  };
  static support::Immortal<Known> known;
  const std::lock_guard lock(known->mutex);
  std::erase_if(known->orders, [](const auto& each) { return each.second.expired(); });
  auto& found = known->orders[pool];
  auto order = found.lock();
  if (!order) found = order = std::make_shared<PoolOrder>();
  return order;
}

std::size_t PoolOrder::add_forward(std::shared_ptr<const std::string> callable) {
  std::erase_if(forwards_, [](const Forward& each) { return each.callable.use_count() == 1; });
  forwards_.push_back({std::move(callable), captures_, captures_, {}});
  return captures_++;
}

PoolOrder::Forward& PoolOrder::at(std::size_t number) {
  return *std::lower_bound(forwards_.begin(), forwards_.end(), number,
                           [](const Forward& each, std::size_t captured) { return each.captured < captured; });
}

void PoolOrder::add_backward(std::size_t forward) {
  at(forward).needed_until = captures_++;
}

void PoolOrder::forward_runs(std::size_t forward, const std::shared_ptr<GraphedCall>& call) {
  Forward& here = at(forward);
  overwrite(here.captured, {call->callable, call->number});
  here.current = call;
}

void PoolOrder::backward_runs(std::size_t forward) {
  Forward& here = at(forward);
  overwrite(here.needed_until, {here.callable});
  if (const auto call = here.current.lock()) call->backward_lost = {here.callable, 0, /*used_up=*/true};
}

void PoolOrder::overwrite(std::size_t captured, const Overwritten& by) {
  for (Forward& each : forwards_) {
    const auto call = each.current.lock();
    if (!call) continue;
    const bool has_backward = each.needed_until > each.captured;
    const bool results_too = captured <= each.captured;  // results stay in use: later captures do not use their memory
    if ((results_too || (has_backward && captured > each.needed_until)) && !call->backward_lost)
      call->backward_lost = by;
    if (!results_too) continue;
    call->outputs_lost = by;
    for (auto& version : call->versions)
      if (version.enabled()) version.bump();
    each.current.reset();
  }
}

}  // namespace reprise::libtorch
