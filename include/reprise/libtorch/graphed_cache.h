// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "reprise/cache_body.h"
#include "reprise/cache_statistics.h"
#include "reprise/detail/export.h"
#include "reprise/graph_cache.h"
#include "reprise/graph_memory.h"
#include "reprise/libtorch/detail/call_key.h"
#include "reprise/libtorch/graphed_callables.h"

/// \file
/// make_graphed_callables with a cache: graphs of one callable for arguments of any shape.

namespace reprise::libtorch {

/// Options of make_graphed_callables() with a cache. The bounds are those of GraphCacheOptions; an entry has the graphs
/// of a forward and its backward.
///
/// Unlike GraphCacheOptions, these have no `padding`: what a longer tensor means, only the callable knows; pad
/// before the call, and pass the length or a mask. `inputs` and `outputs` are in `callable`, or follow from it:
/// arguments are copied always.
struct GraphedCacheOptions {
  std::string name = {};         ///< names the cache in errors and warnings; empty: the name of the module
  std::size_t max_entries = 64;  ///< at least 1
  /// Device memory of all entries, in bytes: their pool, and the tensors that arguments are copied to. 0: a quarter of
  /// the device's memory.
  std::uint64_t max_bytes = 0;
  std::size_t capture_after = 2;  ///< the first calls of a key run eagerly
  /// Each n-th replay of a key captures the callable again, with its warm-up, and refuses the call if that does other
  /// work: other nodes, kernels, launch shapes or numbers among the arguments of kernels. 0: none. Addresses are not
  /// compared, nor are scalars of operators on the host device, whose nodes do not show them.
  /// Where the types of arguments are not known, as in libtorch's kernels on CUDA devices, structs of more than 8 bytes
  /// are not compared, nor numbers of 8 bytes that differ in the lower half alone: these may be bytes that no code
  /// wrote.
  std::size_t check_every = 0;
  /// Options for capturing an entry. `pool` belongs to the cache.
  GraphedCallableOptions callable = {.capture_error_mode = CaptureMode::thread};
};

namespace detail {

/// The bytes that the framework's allocator took from its driver for a pool, which its graphs share: it stays until
/// the last one is released. Where CachingAllocator counts it, 0.
using PoolShare = std::atomic<std::uint64_t>;

/// Part of a CachedCallable that does not depend on the types of its arguments: a GraphCache, made at the first call.
///
/// Thread-safe.
class REPRISE_EXPORT CachedFunction {
 public:
  /// \throws UsageError for options that belong to the cache.
  CachedFunction(GraphedCacheOptions options, const GraphedSource& source);

  void run(const CallKey& call, const cache_detail::Body& body);
  bool capture(const CallKey& call, const cache_detail::Body& body);
  /// The cache; null before the first call.
  GraphCache* cache() const;
  const GraphedCallableOptions& options() const noexcept { return options_.callable; }
  /// The device of the callable's parameters; none without any. Goes through all of them.
  std::optional<c10::Device> device() const { return device_of_source(source_); }
  /// Memory that the graphs of a pool have taken from the framework's allocator.
  std::shared_ptr<PoolShare> share_of(const MempoolId& pool) const;

 private:
  GraphCache& cache_of(const CallKey& call);

  const GraphedCacheOptions options_;
  const GraphedSource source_;
  mutable std::mutex mutex_;           // guards the rest
  std::optional<c10::Device> device_;  // of the cache
  std::unique_ptr<GraphCache> cache_;
  mutable MempoolId pool_;
  mutable std::weak_ptr<PoolShare> share_;  // of that pool
};

/// The bytes that the allocator of a device has taken from its driver, where CachingAllocator does not count them; else
/// 0.
REPRISE_EXPORT std::uint64_t framework_bytes(c10::Device device);

/// A callable that several hold.
template <class C>
struct SharedCallable {
  std::shared_ptr<C> callable;

  template <class... Args>
  decltype(auto) operator()(Args&... args) const {
    return call_source(*callable, args...);
  }
};

/// One call, for a GraphCache: its arguments, and its result once it has run.
template <class C, class... Args>
class CachedCall final : public cache_detail::Body {
  using Source = FunctionOf<SharedCallable<C>>;
  using Maker = GraphedCallableMaker<Source, std::tuple<Args...>>;
  using Made = typename Maker::Made;

 public:
  using Result = typename Maker::Result;

  CachedCall(const Source& source, const CachedFunction& function, Args&&... args)
      : Body({&typeid(CachedCall)}), source_(source), function_(function), arguments_(std::move(args)...) {}

  /// The callable itself.
  cache_detail::BodyResults run(std::span<const cache_detail::InputMemory> /*inputs*/,
                                const cache_detail::Lengths& /*lengths*/) const override {
    std::apply([&](Args&... each) { run_with(source_.function, each...); }, arguments_);
    return {};
  }
  const std::type_info& returns() const noexcept override { return typeid(void); }

  std::shared_ptr<cache_detail::OwnGraphs> capture_itself(const MempoolId& pool) const override {
    return std::make_shared<Graphs>(*this, pool);
  }

  CallKey key(const std::vector<std::shared_ptr<torch::nn::Module>>& modules) {
    CallRecorder recorder;
    for_each_tensor(arguments_, recorder);
    const auto device = recorder.has_device() ? std::nullopt : function_.device();
    return std::move(recorder).key(typeid(std::tuple<Args...>), modules, device);
  }

  Result take_result() const {
    if constexpr (!std::is_void_v<Result>) return *std::move(result_);
  }

 private:
  class Graphs final : public cache_detail::OwnGraphs {
   public:
    Graphs(const CachedCall& call, const MempoolId& pool)
        : made_(capture(call, pool)), share_(call.function_.share_of(pool)) {
      // Calls whose arguments share memory that the callable changes are refused: their key runs eagerly.
      TensorCollector arguments, inputs;
      for_each_tensor(call.arguments_, arguments);
      GraphedAccess::function(made_).check_changed_memory(arguments.tensors);
      std::tuple<Args...> copies = made_.static_arguments();
      for_each_tensor(copies, inputs);
      for (const at::Tensor& each : inputs.tensors)
        if (each.defined()) bytes_ += each.nbytes();
      *share_ += GraphedAccess::function(made_).captured_bytes();
    }

    void replay(const cache_detail::Body& body) override {
      const auto& call = static_cast<const CachedCall&>(body);
      std::apply([&](Args&... each) { call.run_with(made_, each...); }, call.arguments_);
    }
    std::uint64_t bytes() const noexcept override {
      return bytes_ + *share_ / static_cast<std::uint64_t>(share_.use_count());
    }
    std::vector<const CUDAGraph*> graphs() const override { return GraphedAccess::function(made_).graphs(); }

   private:
    static Made capture(const CachedCall& call, const MempoolId& pool) {
      Maker maker(call.source_, call.arguments_);
      std::vector<GraphedSource> sources;
      sources.push_back(maker.take_source());
      GraphedCallableOptions options = call.function_.options();
      options.pool = pool;
      return maker.finish(make_graphed(std::move(sources), options).front());
    }

    Made made_;
    std::uint64_t bytes_ = 0;  // of what arguments are copied to
    std::shared_ptr<PoolShare> share_;
  };

  template <class F>
  void run_with(const F& function, Args&... args) const {
    if constexpr (std::is_void_v<Result>)
      function(args...);
    else
      result_.emplace(function(args...));
  }

  const Source& source_;
  const CachedFunction& function_;
  mutable std::tuple<Args...> arguments_;  // what the callable does to one, as to an argument by value
  mutable std::optional<typename Maker::Kept> result_;
};

// State that the copies of a CachedCallable share.
template <class C>
struct CachedState {
  CachedState(FunctionOf<SharedCallable<C>> its_source, GraphedCacheOptions options, const GraphedSource& description)
      : source(std::move(its_source)),
        modules(all_modules(source.modules)),
        function(std::move(options), description) {}

  const FunctionOf<SharedCallable<C>> source;
  const std::vector<std::shared_ptr<torch::nn::Module>> modules;  // with the parts of each
  CachedFunction function;
};

}  // namespace detail

/// The result of make_graphed_callables() with a cache: called like the callable, with arguments of any types and
/// shapes, with the same results and gradients. A handle: copies are the same callable.
///
/// A call is replayed by the graphs that were captured for its *key*; GraphCache says when a key is captured, runs
/// eagerly, and is released. The key of a call is exact, and has
///
/// - the types of the arguments, the sizes of their containers, and the keys of maps;
/// - numbers, texts and what else is no tensor, by value;
/// - of each tensor its type, device, sizes and strides, whether it needs a gradient, and which others it overlaps;
/// - the mode of each module (`train()`, `eval()`), grad mode, inference mode, autocast, and the default type.
///
/// All else that the callable depends on must stay as it is: parameters may be trained, but not moved or replaced, see
/// GraphedCallable, and settings of libtorch such as deterministic algorithms or TF32. After such a change, clear().
///
/// All entries share one pool. So a forward of another key, or a capture, may overwrite what a backward needs that has
/// not run: backward() then throws UsageError. Where two forwards come before their backwards, use a cache for each.
///
/// Calls may be made by several threads, one after another; a forward and its backward together, as all entries share
/// one pool. Calls on several streams must be ordered, with their backwards. Calls in a capture are refused.
template <class C>
class CachedCallable {
 public:
  /// The same callable. A move copies, too: a moved-from callable can be called as before.
  CachedCallable(const CachedCallable&) = default;
  CachedCallable& operator=(const CachedCallable&) = default;

  /// Runs the callable, or graphs of it.
  /// \throws UsageError in a capture; if tensors are on another device than those of the first call, or on the CPU;
  ///         what GraphedCallable throws. What the callable throws.
  template <class... Args>
  auto operator()(Args... args) const {
    detail::CachedCall<C, Args...> call(state_->source, state_->function, std::move(args)...);
    state_->function.run(call.key(state_->modules), call);
    return call.take_result();
  }

  /// Captures the key of such a call ahead, whatever GraphedCacheOptions::capture_after is. Nothing takes effect.
  /// \returns true if the key has graphs now; false if its capture failed, now or before, or there is no room without
  ///          releasing another entry.
  template <class... Args>
  bool capture(Args... samples) const {
    detail::CachedCall<C, Args...> call(state_->source, state_->function, std::move(samples)...);
    return state_->function.capture(call.key(state_->modules), call);
  }

  /// Why the key of such a call always runs eagerly; nullopt if it does not.
  template <class... Args>
  std::optional<CacheFailure> failure(Args... args) const {
    const GraphCache* const cache = state_->function.cache();
    return cache == nullptr ? std::nullopt : cache->failure(key_of(std::move(args)...));
  }
  /// True if the key of such a call has graphs.
  template <class... Args>
  bool contains(Args... args) const {
    const GraphCache* const cache = state_->function.cache();
    return cache != nullptr && cache->contains(key_of(std::move(args)...));
  }
  /// Releases the graphs of the key of such a call, and forgets its count or failure. \returns false if it was unknown.
  template <class... Args>
  bool forget(Args... args) const {
    GraphCache* const cache = state_->function.cache();
    return cache != nullptr && cache->forget(key_of(std::move(args)...));
  }
  /// As forget() for all keys. Results and their backwards stay valid.
  void clear() const {
    if (GraphCache* const cache = state_->function.cache()) cache->clear();
  }

  std::size_t size() const {  ///< the number of entries
    const GraphCache* const cache = state_->function.cache();
    return cache == nullptr ? 0 : cache->size();
  }
  GraphCacheStatistics statistics() const {
    const GraphCache* const cache = state_->function.cache();
    return cache == nullptr ? GraphCacheStatistics() : cache->statistics();
  }
  /// As GraphCache::memory(), forward and backward graphs of all entries; nothing before the first call.
  GraphMemory memory() const {
    const GraphCache* const cache = state_->function.cache();
    return cache == nullptr ? GraphMemory() : cache->memory();
  }

 private:
  template <class F>
  friend CachedCallable<F> make_graphed_callables(F callable, GraphedCacheOptions options);

  using State = detail::CachedState<C>;

  template <class... Args>
  CacheKey key_of(Args... args) const {
    return detail::CachedCall<C, Args...>(state_->source, state_->function, std::move(args)...)
        .key(state_->modules)
        .key;
  }

  explicit CachedCallable(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

/// Returns a callable that is captured for each shape of its arguments, within bounds:
///
///     torch::nn::Sequential model(...);
///     const auto graphed = reprise::libtorch::make_graphed_callables(model, {.max_entries = 32});
///     for (const auto& [x, y] : batches)  // of several lengths
///       loss_of(graphed(x), y).backward();
///
/// \param callable as above.
/// \param options bounds, and how an entry is captured.
/// \throws UsageError for options that belong to the cache, and for an empty module.
template <class C>
CachedCallable<C> make_graphed_callables(C callable, GraphedCacheOptions options) {
  detail::GraphedSource description;
  detail::describe_source(callable, description);
  FunctionOf<detail::SharedCallable<C>> source{
      {std::make_shared<C>(std::move(callable))}, description.parameters, description.modules};
  return CachedCallable<C>(
      std::make_shared<detail::CachedState<C>>(std::move(source), std::move(options), description));
}

}  // namespace reprise::libtorch
