// SPDX-License-Identifier: Apache-2.0
#include "inspect/liveness/input_source.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "support/immortal.h"

namespace reprise::inspect {
namespace {

struct Kinds {
  std::mutex mutex;
  std::vector<MakeInputSource> all;
};

// Never destroyed: a graph in a static object may be captured late.
Kinds& kinds() {
  static support::Immortal<Kinds> instance;
  return *instance;
}

}  // namespace

void add_input_source(MakeInputSource make) {
  const std::lock_guard lock(kinds().mutex);
  if (std::ranges::find(kinds().all, make) == kinds().all.end()) kinds().all.push_back(make);
}

std::vector<std::unique_ptr<InputSource>> make_input_sources(const graphs::CaptureContext& context) {
  const std::vector<MakeInputSource> all = [] {
    const std::lock_guard lock(kinds().mutex);
    return kinds().all;
  }();
  std::vector<std::unique_ptr<InputSource>> sources;
  for (const MakeInputSource make : all)
    if (auto source = make(context)) sources.push_back(std::move(source));
  return sources;
}

}  // namespace reprise::inspect
