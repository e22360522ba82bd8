// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cache/graph_cache_impl.h"

namespace reprise::cache_detail {

/// Threads that instantiate entries, while the thread of warm() captures further ones.
struct Warming::Impl {
  Impl(CacheAccess::Impl& its_cache, std::size_t all_keys, const WarmOptions& wanted)
      : cache(its_cache), all(all_keys), options(wanted) {}
  ~Impl() {
    if (!started) return;
    cache.warming = std::thread::id();
    stop();
    const CacheAccess::Impl::Lock lock(cache, "GraphCache::warm");
    cache.instantiate_later = nullptr;
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start() {
    if (options.threads == 0) return;
    {
      const CacheAccess::Impl::Lock lock(cache, "GraphCache::warm");
      if (cache.instantiate_later)
        throw UsageError("GraphCache::warm expected no other call of it to be underway; found one. Order the calls.");
      cache.instantiate_later = [this](std::shared_ptr<caches::Entry> entry) { add(std::move(entry)); };
    }
    started = true;
    try {
      for (std::size_t i = 0; i < std::min(options.threads, all); ++i) threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // The system has no more threads: those that are there do it, or else stop().
    }
    cache.warming = std::this_thread::get_id();
  }

  void add(std::shared_ptr<caches::Entry> entry) {
    {
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(entry));
    }
    changed.notify_one();
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return over || !waiting.empty(); });
      if (waiting.empty()) return;
      std::shared_ptr<caches::Entry> entry = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      std::exception_ptr error;
      try {
        caches::instantiate_captured(*entry);
      } catch (...) {
        error = std::current_exception();
      }
      entry.reset();
      lock.lock();
      if (first_error == nullptr) first_error = error;
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      over = true;
    }
    changed.notify_all();
    for (std::thread& each : threads) each.join();
    threads.clear();
    work();  // what is left, if there was no thread
  }

  CacheAccess::Impl& cache;
  const std::size_t all;
  const WarmOptions& options;
  std::size_t done = 0, with_graph = 0;
  bool started = false;  // with threads

  std::mutex mutex;  // guards what follows; taken after that of the cache
  std::condition_variable changed;
  std::deque<std::shared_ptr<caches::Entry>> waiting;
  bool over = false;
  std::exception_ptr first_error;
  std::vector<std::thread> threads;
};

Warming::Warming(GraphCache& cache, std::size_t all, const WarmOptions& options) {
  CacheAccess::Impl& its = CacheAccess::of(cache);
  its.require_outside_of_captures("GraphCache::warm");
  { const CacheAccess::Impl::Lock refused_within_a_body(its, "GraphCache::warm"); }
  impl_ = std::make_unique<Impl>(its, all, options);
  impl_->start();
}

Warming::~Warming() = default;

void Warming::captured(bool has_graph) {
  ++impl_->done;
  if (has_graph) ++impl_->with_graph;
  if (impl_->options.progress) impl_->options.progress(impl_->done, impl_->all);
}

std::size_t Warming::finish() {
  impl_->stop();
  if (impl_->first_error != nullptr) std::rethrow_exception(impl_->first_error);
  return impl_->with_graph;
}

}  // namespace reprise::cache_detail
