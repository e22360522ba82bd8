// SPDX-License-Identifier: Apache-2.0
#include "graph/hooks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "graph/cuda_graph_impl.h"
#include "text/format.h"

namespace reprise {
namespace graphs {
namespace {

void rethrow(const std::exception_ptr& first) {
  if (first) std::rethrow_exception(first);
}

// Only one exception can be thrown, and none at the end of a graph's life: the others become warnings.
void warn_of(const std::exception_ptr& error, const char* step) noexcept try {
  std::rethrow_exception(error);
} catch (const std::exception& thrown) {
  try {
    warn(text::format("A hook `{}` of a graph threw: {}", step, thrown.what()));
  } catch (...) {
    warn("A hook of a graph threw, and there was no memory for its message.");
  }
} catch (...) {
  warn("A hook of a graph threw something that is no std::exception.");
}

HookId next_id() {
  static std::atomic<std::uint64_t> last{0};
  return HookId{++last};
}

}  // namespace

HookId Hooks::add(GraphHooks hooks) {
  const HookId id = next_id();
  entries_.push_back(std::make_shared<Entry>(Entry{id, std::move(hooks)}));
  return id;
}

std::optional<Hooks::Removed> Hooks::remove(HookId id) {
  const auto found = std::ranges::find_if(entries_, [&](const auto& e) { return e->id == id && !e->removed; });
  if (found == entries_.end()) return std::nullopt;
  (*found)->removed = true;
  if (running_ != 0) return Removed();
  Removed removed = std::move(*found);
  entries_.erase(found);
  return removed;
}

// The functions may have destructors that do anything: they run when the list is in order again.
void Hooks::forget_removed() noexcept {
  const auto removed =
      std::stable_partition(entries_.begin(), entries_.end(), [](const auto& e) { return !e->removed; });
  while (removed != entries_.end()) {
    const std::shared_ptr<Entry> last = std::move(entries_.back());
    entries_.pop_back();
  }
}

template <class F>
std::exception_ptr Hooks::run(const char* step, F&& call) noexcept {
  std::exception_ptr first;
  ++running_;
  const std::size_t registered = entries_.size();  // those that a hook adds have to wait for the next step
  for (std::size_t i = 0; i < registered; ++i) {
    const std::shared_ptr<Entry> entry = entries_[i];
    if (entry->removed) continue;
    try {
      call(entry->hooks);
    } catch (...) {
      if (first)
        warn_of(std::current_exception(), step);
      else
        first = std::current_exception();
    }
  }
  if (--running_ == 0) forget_removed();
  return first;
}

void Hooks::captured(GraphHandle template_graph) {
  captured_ = true;
  rethrow(run("captured", [&](const GraphHooks& hooks) {
    if (hooks.captured) hooks.captured(template_graph);
  }));
}

void Hooks::instantiated(GraphExecHandle exec) {
  rethrow(run("instantiated", [&](const GraphHooks& hooks) {
    if (hooks.instantiated) hooks.instantiated(exec);
  }));
}

bool Hooks::take_part_in_replays() const noexcept {
  return std::ranges::any_of(entries_, [](const auto& e) { return e->hooks.before_replay || e->hooks.after_replay; });
}

void Hooks::before_replay(const StreamRef& stream) {
  rethrow(run("before_replay", [&](const GraphHooks& hooks) {
    if (hooks.before_replay) hooks.before_replay(stream);
  }));
}

void Hooks::replayed(const StreamRef& stream) {
  rethrow(run("after_replay", [&](const GraphHooks& hooks) {
    if (hooks.after_replay) hooks.after_replay(stream);
  }));
}

void Hooks::reset() noexcept {
  if (!std::exchange(captured_, false)) return;
  const std::exception_ptr first = run("reset", [&](const GraphHooks& hooks) {
    if (hooks.reset) hooks.reset();
  });
  if (first) warn_of(first, "reset");
}

}  // namespace graphs

HookId CUDAGraph::add_hooks(GraphHooks hooks) {
  Impl& impl = Impl::of(*this, "CUDAGraph::add_hooks");
  const Impl::LaunchLock lock(impl);
  const HookId id = impl.hooks.add(std::move(hooks));
  // The graph was captured already: from now on its replays have something to do.
  const bool captured = impl.state == Impl::State::captured || impl.state == Impl::State::ready;
  if (captured && impl.hooks.take_part_in_replays()) impl.replays_notify = true;
  return id;
}

void CUDAGraph::remove_hooks(HookId id) {
  constexpr const char* call = "CUDAGraph::remove_hooks";
  Impl& impl = Impl::of(*this, call);
  std::optional<graphs::Hooks::Removed> removed;
  {
    const Impl::LaunchLock lock(impl);
    removed = impl.hooks.remove(id);
  }
  if (removed) return;  // the functions are destroyed here
  throw UsageError(
      text::format("{} expected a name that add_hooks() of this graph returned and whose hooks are still registered; "
                   "found {}; remove each once, from the graph that they were added to.",
                   call, static_cast<std::uint64_t>(id)));
}

}  // namespace reprise
