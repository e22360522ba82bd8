// SPDX-License-Identifier: Apache-2.0
#include "graph/listeners.h"

#include <atomic>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/listeners/hooks_listener.h"
#include "graph/listeners/pool_listener.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "graph/listeners/workspace_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/liveness/liveness_listener.h"
#include "inspect/report/report_listener.h"

namespace reprise::graphs {
namespace {

struct Factories {
  std::mutex mutex;
  std::vector<ListenerFactory> all;
  std::atomic<std::size_t> count{0};  // how many there are, readable without the mutex
};

// Never destroyed: graphs may be made until the process ends.
Factories& factories() {
  static auto* const instance = new Factories;
  return *instance;
}

// Where the listeners of components stand: how many of this library come before them, and how many after.
constexpr std::ptrdiff_t before_components = 4;
constexpr std::ptrdiff_t after_components = 4;

}  // namespace

Listeners make_own_listeners() {
  Listeners listeners;
  listeners.push_back(std::make_unique<inspect::ReportListener>());  // first: it sees what the others do
  listeners.push_back(std::make_unique<PoolListener>());
  listeners.push_back(std::make_unique<WorkspaceListener>());
  listeners.push_back(std::make_unique<RandomListener>());
  // One may know another: they live and die together, each in its place in memory.
  auto annotations = std::make_unique<inspect::AnnotationListener>();
  auto liveness = std::make_unique<inspect::LivenessListener>(*annotations);  // after those that change nodes
  listeners.push_back(std::move(annotations));
  listeners.push_back(std::move(liveness));
  listeners.push_back(std::make_unique<RetainListener>());
  listeners.push_back(std::make_unique<HooksListener>());  // last: hooks see what the others did, and may throw
  return listeners;
}

Listeners make_listeners() {
  Listeners listeners = make_own_listeners();
  add_missing_listeners(listeners);
  return listeners;
}

void add_listener_factory(ListenerFactory make) {
  Factories& known = factories();
  const std::lock_guard lock(known.mutex);
  known.all.push_back(make);
  known.count.store(known.all.size(), std::memory_order_release);
}

void add_missing_listeners(Listeners& listeners) {
  Factories& known = factories();
  const auto has = [&] { return listeners.size() - static_cast<std::size_t>(before_components + after_components); };
  if (has() == known.count.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(known.mutex);
  while (has() < known.all.size()) {
    auto made = known.all[has()]();
    listeners.insert(std::prev(listeners.end(), after_components), std::move(made));
  }
}

}  // namespace reprise::graphs
