// SPDX-License-Identifier: Apache-2.0
#include "graph/hooks.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <mutex>
#include <utility>

#include "backend/user_code.h"
#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise {
namespace graphs {
namespace {

// Only one exception can be thrown, and none at the end of a graph's life: the others become warnings.
void warn_of(const std::exception_ptr& error, const char* step, const CUDAGraph& graph) noexcept try {
  if (error) std::rethrow_exception(error);
} catch (const std::exception& thrown) {
  try {
    warn(text::format("A hook `{}` of {} threw: {}", step, graph_text(graph.name(), "a graph"), thrown.what()));
  } catch (...) {
    warn("A hook of a graph threw, and there was no memory for its message.");
  }
} catch (...) {
  warn("A hook of a graph threw something that is not a std::exception.");
}

void rethrow(const std::exception_ptr& first) {
  if (first) std::rethrow_exception(first);
}

constinit thread_local int calls_on_this_thread = 0;  // one within the other

/// A call of a hook, on the calling thread.
class Running {
 public:
  explicit Running(HookEntry& entry) : entry_(entry) {
    entry_.running.fetch_add(1);
    ++calls_on_this_thread;
  }
  ~Running() {
    --calls_on_this_thread;
    if (entry_.running.fetch_sub(1) == 1) entry_.running.notify_all();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  HookEntry& entry_;
};

// Calls `call(entry)` for each hook of the graph that is not removed, and returns the first exception.
template <class Call>
std::exception_ptr run(const CUDAGraph& graph, std::initializer_list<const HookEntries*> lists, const char* step,
                       Call&& call) noexcept {
  const backend::UserCode user_code;
  std::exception_ptr first;
  for (const HookEntries* const list : lists) {
    if (list == nullptr) continue;
    for (const std::shared_ptr<HookEntry>& entry : *list) {
      const Running running(*entry);
      if (entry->removed) continue;
      try {
        call(*entry);
      } catch (...) {
        if (first)
          warn_of(std::current_exception(), step, graph);
        else
          first = std::current_exception();
      }
    }
  }
  return first;
}

ErrorCode code_of_current_exception() noexcept try { throw; } catch (const BackendError& error) {
  return error.code();
} catch (const OutOfMemoryError&) {
  return ErrorCode::out_of_memory;
} catch (...) {
  return ErrorCode::unknown;
}

HookId next_id() {
  static std::atomic<std::uint64_t> last{0};
  return HookId{++last};
}

struct GlobalHooks {
  std::mutex mutex;
  HookList list;

  void update_flags() {
    global_hooks_exist.store(list.entries() != nullptr, std::memory_order_relaxed);
    global_hooks_in_replays.store(list.take_part_in_replays(), std::memory_order_relaxed);
  }
};

// Never destroyed: graphs are reset by destructors of static objects.
GlobalHooks& global_hooks() {
  static support::Immortal<GlobalHooks> instance;
  return *instance;
}

std::shared_ptr<const HookEntries> global_entries() {
  GlobalHooks& global = global_hooks();
  const std::lock_guard lock(global.mutex);
  return global.list.entries();
}

// Hooks of one graph get no graph.
GlobalGraphHooks without_graph(GraphHooks of) {
  GlobalGraphHooks hooks;
  if (of.captured) hooks.captured = [f = std::move(of.captured)](const CUDAGraph&, GraphHandle graph) { f(graph); };
  if (of.instantiated)
    hooks.instantiated = [f = std::move(of.instantiated)](const CUDAGraph&, GraphExecHandle exec) { f(exec); };
  if (of.before_replay)
    hooks.before_replay = [f = std::move(of.before_replay)](const CUDAGraph&, const StreamRef& stream) { f(stream); };
  if (of.after_replay)
    hooks.after_replay = [f = std::move(of.after_replay)](const CUDAGraph&, const StreamRef& stream, ErrorCode result) {
      f(stream, result);
    };
  if (of.reset) hooks.reset = [f = std::move(of.reset)](const CUDAGraph&) { f(); };
  return hooks;
}

}  // namespace

bool hook_runs_on_this_thread() noexcept {
  return calls_on_this_thread != 0;
}

HookId HookList::add(GlobalGraphHooks hooks) {
  const HookId id = next_id();
  HookEntries entries = entries_ != nullptr ? *entries_ : HookEntries();
  entries.push_back(std::make_shared<HookEntry>(id, std::move(hooks)));
  entries_ = std::make_shared<const HookEntries>(std::move(entries));
  return id;
}

std::shared_ptr<HookEntry> HookList::remove(HookId id) {
  HookEntries entries = entries_ != nullptr ? *entries_ : HookEntries();
  const auto found = std::ranges::find(entries, id, [](const auto& entry) { return entry->id; });
  if (found == entries.end()) return nullptr;
  std::shared_ptr<HookEntry> removed = std::move(*found);
  entries.erase(found);
  entries_ = entries.empty() ? nullptr : std::make_shared<const HookEntries>(std::move(entries));
  removed->removed = true;
  return removed;
}

bool HookList::take_part_in_replays() const noexcept {
  return entries_ != nullptr && std::ranges::any_of(*entries_, [](const auto& entry) {
           return entry->hooks.before_replay || entry->hooks.after_replay;
         });
}

HookId Hooks::add(GraphHooks hooks) {
  return own_.add(without_graph(std::move(hooks)));
}

// Holds the lists that it works on, which the hooks may replace.
template <class... Arguments>
std::exception_ptr Hooks::call(const char* step,
                               std::function<void(const CUDAGraph&, Arguments...)> GlobalGraphHooks::*hook,
                               Arguments... arguments) const noexcept {
  const auto own = own_.entries(), global = with_global_ ? global_entries() : nullptr;
  return run(*graph_, {own.get(), global.get()}, step, [&](const HookEntry& entry) {
    if (entry.hooks.*hook) (entry.hooks.*hook)(*graph_, arguments...);
  });
}

bool Hooks::captured(GraphHandle template_graph) {
  captured_ = true;
  if (none()) return false;
  rethrow(call("captured", &GlobalGraphHooks::captured, template_graph));
  return true;
}

void Hooks::instantiated(GraphExecHandle exec) {
  if (!none()) rethrow(call("instantiated", &GlobalGraphHooks::instantiated, exec));
}

void Hooks::reset() noexcept {
  if (std::exchange(captured_, false) && !none()) warn_of(call("reset", &GlobalGraphHooks::reset), "reset", *graph_);
}

HookedReplay::HookedReplay(const Hooks& hooks, const StreamRef& stream)
    : own_(hooks.own_.entries()),
      global_(global_hooks_in_replays.load(std::memory_order_relaxed) ? global_entries() : nullptr),
      graph_(hooks.graph_),
      stream_(stream) {}

void HookedReplay::before() {
  rethrow(run(*graph_, {global_.get(), own_.get()}, "before_replay", [&](const HookEntry& entry) {
    try {
      if (entry.hooks.before_replay) entry.hooks.before_replay(*graph_, stream_);
    } catch (...) {
      threw_.push_back(&entry);
      throw;
    }
  }));
}

std::exception_ptr HookedReplay::after(ErrorCode result) noexcept {
  return run(*graph_, {own_.get(), global_.get()}, "after_replay", [&](const HookEntry& entry) {
    if (entry.hooks.after_replay && std::ranges::find(threw_, &entry) == threw_.end())
      entry.hooks.after_replay(*graph_, stream_, result);
  });
}

void HookedReplay::launched() {
  rethrow(after(ErrorCode::success));
}

void HookedReplay::failed() noexcept {
  warn_of(after(code_of_current_exception()), "after_replay", *graph_);
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
  std::shared_ptr<void> removed;
  {
    const Impl::LaunchLock lock(impl);
    removed = impl.hooks.remove(id);
  }
  if (removed != nullptr) return;  // the functions are destroyed here
  throw UsageError(
      text::format("{} expected the id of hooks of this graph that are still registered; "
                   "found {}; remove each once, from the graph that they were added to.",
                   call, static_cast<std::uint64_t>(id)));
}

HookId add_global_hooks(GlobalGraphHooks hooks) {
  graphs::GlobalHooks& global = graphs::global_hooks();
  const std::lock_guard lock(global.mutex);
  const HookId id = global.list.add(std::move(hooks));
  global.update_flags();
  return id;
}

void remove_global_hooks(HookId id) {
  graphs::GlobalHooks& global = graphs::global_hooks();
  std::shared_ptr<graphs::HookEntry> removed;
  {
    const std::lock_guard lock(global.mutex);
    removed = global.list.remove(id);
    global.update_flags();
  }
  if (removed == nullptr)
    throw UsageError(text::format(
        "remove_global_hooks expected the id of global hooks that are still registered; found {}; remove each once.",
        static_cast<std::uint64_t>(id)));
  if (graphs::calls_on_this_thread != 0) return;
  for (int running = 0; (running = removed->running.load()) != 0;) removed->running.wait(running);
  const GlobalGraphHooks functions = std::move(removed->hooks);  // a replay underway may have the entry
}

}  // namespace reprise
