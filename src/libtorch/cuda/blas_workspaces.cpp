// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/blas_workspaces.h"

#include <array>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "captures/registry.h"
#include "libtorch/cuda/versions/version.h"
#include "reprise/error.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::libtorch {

using Key = std::tuple<void*, void*>;  // handle and stream
using version::Workspace;

/// A workspace that lies in a pool.
struct BlasWorkspace {
  Device device;
  MempoolId pool;
  std::size_t map;  // its number
  Key key;
  Workspace of_torch;  // as it was in the map
};

namespace {

using version::workspace_maps;

// The pool of each capture with workspaces.
constinit captures::Slot<TensorPool> pool_of;

bool any_other_underway(const captures::Capture& mine) {
  bool any = false;
  captures::for_each(
      [&](const captures::Capture& each) { any = any || (&each != &mine && each.get(pool_of) != nullptr); });
  return any;
}

// The workspaces of the process. Its mutex is locked before those of the maps, and these before the allocator's; while
// it is held, no capture begins or ends to have workspaces.
struct Table {
  std::mutex mutex;
  std::array<version::Workspaces, workspace_maps> aside;  // contents of the maps before the captures underway
  // Made by eager work meanwhile. Kept for a while: a thread may have looked one up and not launched yet.
  std::vector<Workspace> given_up;
  std::vector<std::weak_ptr<BlasWorkspace>> of_graphs;
};

Table& table() {
  static support::Immortal<Table> instance;  // graphs may be destroyed until the process ends
  return *instance;
}

void end_loan(void* loan) {
  delete static_cast<std::shared_ptr<BlasWorkspace>*>(loan);
}

Workspace lend(const std::shared_ptr<BlasWorkspace>& workspace) {
  const at::DataPtr& memory = version::memory_of(workspace->of_torch);
  return version::workspace_in(
      {memory.get(), new std::shared_ptr<BlasWorkspace>(workspace), &end_loan, memory.device()}, workspace->of_torch);
}

// Null if it is not in a pool of this library.
std::shared_ptr<BlasWorkspace> lent(const at::DataPtr& memory) {
  if (memory.get_deleter() != &end_loan) return nullptr;
  return *static_cast<std::shared_ptr<BlasWorkspace>*>(memory.get_context());
}

// All workspaces, or those of one stream.
void put_aside(Table& all, std::size_t number, std::optional<StreamHandle> stream) {
  auto& map = version::workspaces(number);
  for (auto each = map.begin(); each != map.end();) {
    if (stream && std::get<1>(each->first) != *stream) {
      ++each;
      continue;
    }
    auto [place, is_new] = all.aside[number].try_emplace(each->first, std::move(each->second));
    if (!is_new) all.given_up.push_back(std::move(each->second));
    each = map.erase(each);
  }
}

void restore(Table& all, std::size_t number) {
  auto& map = version::workspaces(number);
  for (auto& [key, memory] : all.aside[number]) {
    Workspace& place = map[key];
    if (version::memory_of(place).get() != nullptr) all.given_up.push_back(std::move(place));
    place = std::move(memory);
  }
  all.aside[number].clear();
}

// The address ranges of a pool.
class PoolAddresses {
 public:
  explicit PoolAddresses(const TensorPool& pool) : pool_(pool) {}

  bool contain(const void* address) {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    if (!std::exchange(known_, true)) query();
    for (const auto& [begin, bytes] : segments_)
      if (value >= begin && value - begin < bytes) return true;
    return false;
  }

 private:
  void query() {
    const version::PoolId id{pool_.id_in_libtorch().first, pool_.id_in_libtorch().second};
    const auto answer = version::snapshot(id);
    for (const auto& segment : answer.segments)
      if (segment.device == pool_.device().index() && segment.owner_private_pool_id == id)
        segments_.emplace_back(segment.address, segment.total_size);
  }

  const TensorPool& pool_;
  bool known_ = false;
  std::vector<std::pair<std::uintptr_t, std::size_t>> segments_;
};

// Removes the capture's workspaces from a map: those lent to it, and those made in its pool.
void take_from(Table& all, std::size_t number, const TensorPool& pool, PoolAddresses& addresses,
               BlasWorkspaces::Held& held) {
  auto& map = version::workspaces(number);
  for (auto each = map.begin(); each != map.end();) {
    std::shared_ptr<BlasWorkspace> workspace = lent(version::memory_of(each->second));
    if (workspace != nullptr ? workspace->pool != pool.id() || workspace->device != pool.device()
                             : !addresses.contain(version::memory_of(each->second).get())) {
      ++each;
      continue;
    }
    if (workspace == nullptr) {
      workspace = std::make_shared<BlasWorkspace>(
          BlasWorkspace{pool.device(), pool.id(), number, each->first, std::move(each->second)});
      all.of_graphs.push_back(workspace);
    }
    held.push_back(std::move(workspace));
    each = map.erase(each);
  }
}

}  // namespace

BlasWorkspaces::BlasWorkspaces(captures::Capture& capture, std::shared_ptr<TensorPool> pool)
    : capture_(&capture), pool_(std::move(pool)) {
  std::vector<Workspace> given_up;  // freed when nothing is locked any more
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  given_up.swap(all.given_up);
  std::erase_if(all.of_graphs, [](const auto& workspace) { return workspace.expired(); });
  std::optional<StreamHandle> stream;
  if (any_other_underway(capture)) stream = capture.stream().native();
  for (std::size_t number = 0; number < workspace_maps; ++number) {
    const auto lock_map = version::lock_workspaces(number);
    put_aside(all, number, stream);
    for (const auto& each : all.of_graphs) {
      const std::shared_ptr<BlasWorkspace> workspace = each.lock();
      if (workspace != nullptr && workspace->map == number && workspace->pool == pool_->id() &&
          workspace->device == pool_->device())
        version::workspaces(number).insert_or_assign(workspace->key, lend(workspace));
    }
  }
  capture.attach(pool_of, pool_);
}

BlasWorkspaces::~BlasWorkspaces() {
  if (capture_ == nullptr) return;
  try {
    take();
  } catch (const std::exception& error) {
    warn(text::format("the workspaces of cuBLAS after a capture that failed: {}", error.what()));
  }
}

BlasWorkspaces::Held BlasWorkspaces::take() {
  Held held;  // freed after the locks, should this fail
  std::exception_ptr failure;
  PoolAddresses addresses(*pool_);
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  captures::Capture& capture = *std::exchange(capture_, nullptr);
  capture.detach(pool_of);
  const bool last = !any_other_underway(capture);
  for (std::size_t number = 0; number < workspace_maps; ++number) {
    const auto lock_map = version::lock_workspaces(number);
    try {
      take_from(all, number, *pool_, addresses, held);
    } catch (...) {
      failure = std::current_exception();
    }
    if (last) restore(all, number);
  }
  if (failure) std::rethrow_exception(failure);
  return held;
}

}  // namespace reprise::libtorch
