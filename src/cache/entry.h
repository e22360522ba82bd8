// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "backend/objects/tracked_stream.h"
#include "breakable/breaks.h"
#include "cache/input_uses.h"
#include "graph/cuda_graph_impl.h"
#include "graph/resources/graph_counts.h"
#include "memory/lifetime/last_launch.h"
#include "reprise/batch.h"
#include "reprise/cache_body.h"
#include "reprise/graph.h"
#include "reprise/graph_cache.h"
#include "reprise/graph_diff.h"
#include "reprise/stream.h"

namespace reprise::caches {

using cache_detail::BodyResults;
using cache_detail::Call;
using cache_detail::InputMemory;
using cache_detail::Lender;
using cache_detail::Outcome;

/// State that the entries of a cache share.
struct Shared {
  Shared(const GraphCacheOptions& wanted, const Device& its_device)
      : options(wanted), device(its_device), captured(its_device), memory(its_device), pool(graph_pool_handle()) {}

  const GraphCacheOptions& options;
  const Device device;
  /// The last launch of any entry, or of the copies around it: the next one is ordered after it.
  memory::LastLaunch last_launch;
  Stream captured;  ///< of all captures: memory of the pool that one of them frees is reused by the next one
  Stream memory;    ///< for which memory of entries is allocated; no work runs there, see Entry::record_use()
  MempoolId pool;
  bool captured_themselves = false;  ///< the bodies did, see Body::capture_itself()
};

/// The capture failed, but an eager run may succeed: not thrown for an exception of the body's own.
struct CaptureFailed {
  CacheFailure failure;
  /// The error, if eager parts have run before: the body must not run again in the same call. Also if its work was
  /// refused because of its stream, which the caller should know of.
  std::exception_ptr after_effects = {};
  /// The error, if the body freed memory that it used.
  std::exception_ptr freed_input = {};
  /// The error, if the body threw it in a capture that is not broken: it may be one that the body also has eagerly.
  std::exception_ptr of_body = {};
  bool of_part = false;        ///< `after_effects` is an error of the function of an eager part
  bool needs_effects = false;  ///< nothing may take effect, and the body has eager parts
  bool empty = false;          ///< the body submitted nothing to the capture
  bool by_others = false;      ///< a call of another thread broke the capture, and it is none of the body's
  std::uint64_t missing = 0;   ///< bytes of device memory, at least, where that is the reason; else 0
};

/// CaptureFailed::missing for an error.
std::uint64_t missing_memory(const std::exception& error) noexcept;

/// Has a body capture itself, where it does that; else null. \throws CaptureFailed
std::shared_ptr<cache_detail::OwnGraphs> capture_itself(const Call& call, const MempoolId& pool);

/// The bytes of an input as the body gets it.
std::size_t padded_bytes(const InputMemory& input, const cache_detail::Lengths& lengths);
/// Adds the copy of an input to `memory`, and the fill behind it up to the bytes that the body gets.
void add_copy_in(const InputMemory& input, void* memory, std::size_t padded, std::vector<CopyOp>& copies,
                 std::vector<FillOp>& fills);

/// \throws UsageError for an input in memory that kernels of the device cannot use.
void require_reachable(const Call& call, const Device& device);
/// copy_batch_async() of inputs: names the input in what that throws for memory that kernels cannot use.
void copy_inputs_of(const Call& call, std::span<const CopyOp> copies, const StreamRef& stream);

/// \throws UsageError if an input that the body changes lies in the same memory as another one, and one of the two is
/// copied: the body would see two memories.
void require_apart(const Call& call, const std::vector<bool>& copied);

/// Warns that what a body changed in its inputs before it threw was not copied back, because of `error`.
void warn_of_lost_changes(const std::exception& error) noexcept;

/// Rethrows the exception that is being handled; an OutOfMemoryError or BackendError with `done_and_missing` before its
/// text.
[[noreturn]] void rethrow_with(const char* done_and_missing);
/// Copies behind work that is not undone: an exception says what was done, and what is missing.
template <class Copy>
void copy_behind(const char* done_and_missing, Copy&& copy) try {
  copy();
} catch (...) {
  rethrow_with(done_and_missing);
}

/// The graph of one key, with the memory that it needs beside the pool.
///
///     Entry() captures -> [check()] -> launch() ...
///
/// If the body has eager parts, the segments before the last one, and these parts, have run when the constructor
/// returns; the first launch, with the same call, is that of the last segment. Inputs are copied then, as eager parts
/// hold their addresses.
///
/// Results that live, and launches that run, keep their memory when the entry is destroyed. One thread at a time.
class Entry {
 public:
  /// \param key as text.
  /// \param run where eager parts run; null: nothing may take effect.
  /// \throws CaptureFailed; what the body throws.
  Entry(Shared& shared, const Call& call, std::string key, const StreamRef* run);
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

  /// \throws UsageError unless the call has inputs and results as the capture had.
  void require_fits(const Call& call, const char* name) const {
    if (!(call.body.identity() == identity_) || call.inputs.size() != inputs_.size()) [[unlikely]]
      refuse_body(call, name);
    for (std::size_t i = 0; i < inputs_.size(); ++i) require_fits(call, name, i);
  }

  /// Before a launch behind the last one of the cache: makes it wait, on the device, for what the stream of the call
  /// before reads of that one's results. False if that cannot be done now. \throws BackendError
  bool order_behind_readers(const StreamRef& stream) {
    return results_launch_.is_none() || results_launch_.was_on(stream) ||
           results_launch_.is_on_stream_of(shared_.last_launch) || results_launch_.order_before(stream);
  }

  /// For a stream on which the last launch of the cache was: replays, if that is all that a call does. \returns false,
  /// and does nothing, otherwise. \throws BackendError
  bool launch_plain(const StreamRef& stream) {
    if (plain_ != nullptr) plain_->replay(&stream);
    return plain_ != nullptr;
  }

  /// Replays with the inputs of a call that fits, after the last launch of the cache on that stream.
  /// \throws BackendError, OutOfMemoryError: earlier results are valid still if nothing was launched.
  Outcome launch(const StreamRef& stream, const Call& call);

  /// True once after launches that have allocated memory: bytes() has grown.
  bool take_grown() noexcept { return std::exchange(grown_, false); }

  /// True if eager parts have run in the capture: the next launch completes that call.
  bool has_begun() const noexcept { return breaks_have_run_; }

  /// True if graphs of the entry have control flow: the body cannot run eagerly.
  bool needs_capture() const noexcept { return needs_capture_; }
  /// False for a body with eager parts, which cannot be captured without effect.
  bool can_be_checked() const noexcept { return breaks_.empty(); }
  /// Captures the body again with the inputs of a call, and compares. Nothing runs on the device.
  /// \returns what differs, in lines; empty if nothing does.
  /// \throws as the constructor.
  std::string check(const Call& call);

  /// The graphs of all segments, in order; one for a body without eager parts, or those of a body that captured itself.
  std::vector<const CUDAGraph*> graphs() const;
  std::uint64_t bytes() const noexcept;  ///< of device memory outside of the pool
  graphs::GraphCounts counts() const;    ///< of the graph, or of all graphs of a body with eager parts

 private:
  using Memory = std::shared_ptr<Buffer<std::byte>>;
  struct Input {
    std::size_t bytes = 0;  // padded
    bool written = false;
    std::optional<Parameter<std::byte*>> parameter = {};  // set in each call
    bool of_one_kind = false;                             // copies or sets use it: memory of the device alone
    const void* set = nullptr;                            // the last address that was not copied
    Memory memory = {};                                   // to which the input is copied, at data()
    bool copied = false;                                  // in the present call

    std::byte* data() const { return memory->data() + bytes_around; }
  };

  /// `breaks_` gets the segments before the last one.
  BodyResults capture(CUDAGraph& graph, const Call& call, std::span<const InputMemory> at, bool instantiate,
                      const StreamRef* run);
  void require_fits(const Call& call, const char* name, std::size_t input) const;
  [[noreturn]] void refuse_body(const Call& call, const char* name) const;
  [[noreturn]] void refuse(const Call& call, const char* name, const std::string& expected,
                           const std::string& found) const;
  void capture_results(const BodyResults& results);
  std::string result_differences(const CUDAGraph& again, const BodyResults& results) const;
  void patch_inputs();
  void set_inputs(const Call& call);
  void copy_inputs(const StreamRef& stream, const Call& call);
  void copy_back(const StreamRef& stream, const Call& call);
  void copy_back_after_error(const StreamRef& stream, const Call& call) noexcept;
  /// As graphs::replay_in_order(). \param has_begun the segments before the last one have run.
  std::exception_ptr replay_segments(const StreamRef& stream, const Call& call, bool has_begun);
  /// True if the graph can use the input at this address: it is aligned, and lies in memory of the device if that
  /// counts.
  bool can_use(const Input& input, const void* data) const;
  std::byte* memory_of(Input& input);
  void record_use(const StreamRef& stream);
  /// \param has_begun eager parts have run in this call: without memory, what they changed in inputs is copied back.
  std::shared_ptr<Lender> new_results(const StreamRef& stream, const Call& call, bool has_begun);
  void retain(const std::shared_ptr<void>& memory);
  void require_no_parameters();
  bool has_control_flow() const;  // throws CaptureFailed if eager parts have run, else BackendError

  // Members that a hit touches come first, see CUDAGraph::Impl.
  Shared& shared_;
  const cache_detail::BodyIdentity identity_;
  graphs::GraphAccess::Impl* plain_ = nullptr;  // of graph_, if a launch is that alone: no inputs, results, eager parts
  std::vector<Input> inputs_;
  const std::type_info& returns_;
  std::shared_ptr<cache_detail::OwnGraphs> own_;  // set: the body captured itself, and all else is unused
  std::vector<ParameterValue> values_;
  std::shared_ptr<Lender> lender_;                   // null: there are no results
  std::vector<cache_detail::ResultMemory> in_pool_;  // results as the graph leaves them, with CacheOutputs::copy
  std::uint64_t result_bytes_ = 0;
  memory::LastLaunch results_launch_;                 // whose stream may read results that the next launch overwrites
  std::shared_ptr<backend::TrackedStream> recorded_;  // the last stream for which all memory is; null: none, or foreign
  breakables::Breaks breaks_;                         // empty: the body has no eager parts
  bool breaks_have_run_ = false;                      // for the next launch
  bool captured_ = false;
  bool grown_ = false;
  bool needs_capture_ = false;
  CUDAGraph graph_;
};

/// Runs the body on the current stream, with the inputs of the call, padded if it is a padded one.
/// \throws what the body throws; BackendError, OutOfMemoryError.
Outcome run_eagerly(const Call& call, const StreamRef& stream);

}  // namespace reprise::caches
