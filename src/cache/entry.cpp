// SPDX-License-Identifier: Apache-2.0
#include "cache/entry.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "backend/capture_query.h"
#include "backend/check.h"
#include "breakable/recording.h"
#include "cache/input_uses.h"
#include "graph/capture/framework_captures.h"
#include "graph/cuda_graph_impl.h"
#include "graph/listeners/child_listener.h"
#include "graph/replays.h"
#include "graph/resources/graph_counts.h"
#include "memory/copy_nodes.h"
#include "reprise/batch.h"
#include "text/format.h"

namespace reprise::caches {

using cache_detail::ResultMemory;

namespace {

// At least the alignment for which kernels that were chosen in a capture may rely on an address.
constexpr std::uintptr_t chosen_alignment = 256;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + detail::memory_alignment - 1) / detail::memory_alignment * detail::memory_alignment;
}

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % chosen_alignment == 0;
}

// One block for all results; of 0 bytes if there are none.
std::shared_ptr<Buffer<std::byte>> memory_for(std::span<const ResultMemory> results, const StreamRef& stream,
                                              std::vector<ResultMemory>& places) {
  std::size_t bytes = 0;
  for (const ResultMemory& each : results) bytes += aligned(each.bytes);
  auto memory = std::make_shared<Buffer<std::byte>>(bytes, stream);
  std::size_t at = 0;
  for (const ResultMemory& each : results) {
    places.push_back({each.bytes == 0 ? nullptr : memory->data() + at, each.bytes});
    at += aligned(each.bytes);
  }
  return memory;
}

std::vector<CopyOp> copies(std::span<const ResultMemory> from, std::span<const ResultMemory> to) {
  std::vector<CopyOp> ops;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i].bytes != 0) ops.push_back({to[i].data, from[i].data, from[i].bytes});
  return ops;
}

// Threads of the body, such as those of a backward pass, run operators, or use the stream that is captured.
bool broke_for_others(const std::optional<CaptureReport>& report) {
  return report && report->broken_by && !report->broken_by->capturing_thread && report->operators.empty() &&
         (!report->broken_by->stream || *report->broken_by->stream != report->stream);
}

// In the handler of an exception that left a capture; `of_body`: the body threw it.
[[noreturn]] void throw_capture_failure(bool of_body, bool broken, const CUDAGraph& graph,
                                        const breakables::Recording& recording) {
  const std::optional<CaptureReport>& report = graph.capture_report();
  const bool has_effects = recording.has_run() || recording.refused_outside();
  const std::exception_ptr after_effects = has_effects ? std::current_exception() : nullptr;
  const auto failed = [&](const char* what) {
    return CaptureFailed{.failure = {what, report},
                         .after_effects = after_effects,
                         .of_body = of_body && !broken ? std::current_exception() : nullptr,
                         .needs_effects = recording.refused(),
                         .by_others = broke_for_others(report)};
  };
  try {
    throw;
  } catch (const EmptyCaptureError& error) {
    CaptureFailed failure = failed(error.what());
    failure.empty = true;
    throw failure;
  } catch (const DeadInputError& error) {
    CaptureFailed failure = failed(error.what());
    failure.freed_input = std::current_exception();
    throw failure;
  } catch (const Error& error) {
    CaptureFailed failure = failed(error.what());
    failure.of_part = recording.part_threw() && dynamic_cast<const UsageError*>(&error) == nullptr;
    failure.missing = missing_memory(error);
    throw failure;
  } catch (const std::exception& error) {
    if (broken) throw failed(error.what());
    throw;
  } catch (...) {
    if (broken) throw failed("an exception of the body, in a capture that was broken");
    throw;
  }
}

bool is_broken(const StreamRef& stream) noexcept {
  const std::optional<CaptureStatus> status = backend::known_capture_status(stream);
  return !status || *status == CaptureStatus::invalidated;
}

}  // namespace

std::shared_ptr<cache_detail::OwnGraphs> capture_itself(const Call& call, const MempoolId& pool) try {
  return call.body.capture_itself(pool);
} catch (const CaptureError& error) {
  throw CaptureFailed{.failure = {error.what(), error.report()}, .by_others = broke_for_others(error.report())};
} catch (const DeadInputError& error) {
  throw CaptureFailed{.failure = {error.what()}, .freed_input = std::current_exception()};
} catch (const std::exception& error) {
  throw CaptureFailed{.failure = {error.what()}, .missing = missing_memory(error)};
}

std::uint64_t missing_memory(const std::exception& error) noexcept {
  const auto* const out_of_memory = dynamic_cast<const OutOfMemoryError*>(&error);
  if (out_of_memory == nullptr) return 0;
  const OutOfMemoryError::Statistics& at_error = out_of_memory->statistics();
  return at_error.requested > at_error.device_free ? at_error.requested - at_error.device_free : 1;
}

Entry::Entry(Shared& shared, const Call& call, std::string key, const StreamRef* run)
    : shared_(shared),
      identity_(call.body.identity()),
      returns_(call.body.returns()),
      own_(capture_itself(call, shared.pool)) {
  if (own_ != nullptr) {
    shared.captured_themselves = true;
    needs_capture_ = has_control_flow();
    return;
  }
  std::vector<InputMemory> at;
  for (const InputMemory& each : call.inputs) {
    Input& input = inputs_.emplace_back(Input{padded_bytes(each, call.lengths), each.written});
    at.push_back({memory_of(input), input.bytes, input.written});
  }
  lender_ = std::make_shared<Lender>(shared.device);
  lender_->key = std::move(key);
  capture(graph_, call, at, /*instantiate=*/true, run);
  require_no_parameters();
  needs_capture_ = has_control_flow();
  captured_ = true;
  breaks_have_run_ = !breaks_.empty();
  if (call.body.returns() == typeid(void)) lender_.reset();
  if (lender_ != nullptr && lender_->owner != nullptr) graph_.retain(lender_->owner);
  // A graph that watches what it uses would find the memory of an earlier call dead, although a later call has the same
  // address.
  const GraphOptions& watches = shared.options.capture;
  if (shared.options.inputs == CacheInputs::patch && call.lengths.padded == 0 && !watches.check_input_liveness &&
      !watches.inputs.retain && breaks_.empty())
    patch_inputs();
  for (const Input& input : inputs_)
    if (input.memory != nullptr) retain(input.memory);
  if (inputs_.empty() && lender_ == nullptr && breaks_.empty())
    plain_ = &graphs::GraphAccess::of(graph_, "GraphCache::run");
}

// Nothing sets the parameters of a graph that the cache hides. Thrown as an error that the body must not run again for:
// an eager run would give the right values, and hide the mistake.
void Entry::require_no_parameters() {
  for (const CUDAGraph* const graph : graphs()) {
    graphs::GraphAccess::Impl& impl = graphs::GraphAccess::of(*graph, "GraphCache::run");
    const std::lock_guard lock(impl.launch_mutex);
    const std::optional<GraphNodeHandle> node = impl.parameters.first_node();
    if (!node && !impl.listeners.children().have_parameters()) continue;
    const std::string what = text::format(
        "GraphCache::run: expected a body that passes no Parameter to launch(), and replays no graph that has one; "
        "found {}. Nothing sets it in a graph of a cache: each replay would have the value of the capture. Put the "
        "value into the key, or into memory of the device that is an input. The key runs eagerly until forget().",
        node ? "one, for the " + impl.node_text(*node) : "one, of a child graph");
    throw CaptureFailed{.failure = {what}, .after_effects = std::make_exception_ptr(UsageError(what))};
  }
}

bool Entry::has_control_flow() const try {
  return std::ranges::any_of(graphs(), [](const CUDAGraph* graph) {
    const graphs::GraphAccess::Impl& impl = graphs::GraphAccess::of(*graph, "GraphCache::run");
    if (impl.template_graph == nullptr) return false;
    const backend::Checked runtime(impl.backend());
    const std::vector<GraphNodeHandle> nodes = runtime.nodes_of(impl.template_graph);
    if (graphs::counts_of(*graph).nodes == nodes.size()) return false;  // none has nodes of its own
    return std::ranges::any_of(
        nodes, [&](GraphNodeHandle node) { return runtime.type_of(node) == backend::NodeType::conditional; });
  });
} catch (const Error& error) {
  if (breaks_.empty()) throw;
  throw CaptureFailed{.failure = {error.what()}, .after_effects = std::current_exception()};
}

// Each segment retains it: after a replay that ends with an exception, those before the last one may still run.
void Entry::retain(const std::shared_ptr<void>& memory) {
  for (breakables::Break& each : breaks_) each.segment.retain(memory);
  graph_.retain(memory);
}

BodyResults Entry::capture(CUDAGraph& graph, const Call& call, std::span<const InputMemory> at, bool instantiate,
                           const StreamRef* run) {
  const StreamRef stream = shared_.captured, callers = current_stream(shared_.device);
  const StreamGuard current(stream);
  GraphOptions options = shared_.options.capture;
  options.pool = shared_.pool;
  options.name =
      shared_.options.name + (shared_.options.name.empty() ? "" : " ") + call.key.str(shared_.options.key_fields);
  breakables::RecordingPlan plan{.call = "GraphCache::run",
                                 .options = std::move(options),
                                 .captured = stream,
                                 .outside = callers,
                                 .frame = __builtin_frame_address(0),
                                 .instantiate = instantiate};
  if (run != nullptr) {
    plan.run = *run;
    plan.before_first_run = [&] {
      set_inputs(call);
      record_use(*run);
      copy_inputs(*run, call);
    };
  }
  breakables::Recording recording(graph, breaks_, shared_.last_launch, std::move(plan));
  BodyResults results;
  bool in_body = false;
  try {
    recording.begin();
    in_body = true;
    results = call.body.run(at, call.lengths);
    in_body = false;
    capture_results(results);
    recording.end();
  } catch (...) {
    const bool broken = is_broken(stream);
    recording.abandon();
    if (run != nullptr && recording.has_run()) copy_back_after_error(*run, call);
    if (const auto* const framework = graphs::framework_captures()) framework->add_to_exception();
    throw_capture_failure(in_body, broken, graph, recording);
  }
  return results;
}

// Results lie in the pool, where other entries overwrite them. The last node of the graph copies them to memory of the
// entry; with CacheOutputs::copy each call does, to memory of its own.
void Entry::capture_results(const BodyResults& results) {
  if (results.memory.empty()) return;
  if (shared_.options.outputs == CacheOutputs::copy) {
    if (!captured_) in_pool_ = results.memory;
    return;
  }
  if (!captured_) {
    auto memory = memory_for(results.memory, shared_.memory, lender_->memory);
    result_bytes_ = memory->size_bytes();
    lender_->owner = std::move(memory);
    recorded_.reset();
  }
  const auto same_bytes = [](const ResultMemory& a, const ResultMemory& b) { return a.bytes == b.bytes; };
  if (!std::ranges::equal(results.memory, lender_->memory, same_bytes))
    return;  // check() finds that the copy is missing
  if (const auto ops = copies(results.memory, lender_->memory); !ops.empty()) copy_batch_async(ops, shared_.captured);
}

// More than needed: addresses around the input are none of other memory.
std::byte* Entry::memory_of(Input& input) {
  if (input.bytes == 0) return nullptr;
  if (input.memory == nullptr) {
    input.memory = std::make_shared<Buffer<std::byte>>(input.bytes + 2 * bytes_around, shared_.memory);
    recorded_.reset();
  }
  return input.data();
}

// Work of the stream uses memory of the entry: copies around the replay, and what the caller submits there to read
// results. The memory may be dropped while that work runs.
void Entry::record_use(const StreamRef& stream) {
  if (recorded_ != nullptr && recorded_->is(stream)) [[likely]]
    return;
  if (result_bytes_ != 0) static_cast<Buffer<std::byte>*>(lender_->owner.get())->record_stream(stream);
  for (const Input& input : inputs_)
    if (input.memory != nullptr) input.memory->record_stream(stream);
  recorded_ = backend::TrackedStream::find(stream);
}

// The graph was captured with memory of the entry. Where it can be changed to use that of each call, the former is
// released.
void Entry::patch_inputs() {
  std::vector<MemoryRange> memory;
  std::vector<Input*> used;
  for (Input& input : inputs_) {
    if (input.memory == nullptr) continue;
    memory.push_back({input.data(), input.bytes});
    used.push_back(&input);
  }
  const std::vector<InputUse> uses = find_uses(graph_, memory);
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (uses[i] != InputUse::readable && uses[i] != InputUse::readable_in_copy) continue;
    used[i]->of_one_kind = uses[i] == InputUse::readable_in_copy;
    used[i]->parameter = graph_.parameter(used[i]->data(), used[i]->bytes);
    used[i]->memory.reset();
  }
}

bool Entry::can_use(const Input& input, const void* data) const {
  if (!is_aligned(data)) return false;
  if (!input.of_one_kind || data == input.set) return true;
  const backend::PointerInfo info = backend::Checked(shared_.device.backend()).info_of(data);
  return info.kind == backend::MemoryKind::device && info.device_index == shared_.device.index();
}

// Decides how the inputs of a call are used, and changes the graph accordingly.
void Entry::set_inputs(const Call& call) {
  values_.clear();
  std::vector<bool> copied;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    copied.push_back(input.parameter ? !can_use(input, call.inputs[i].data) : input.memory != nullptr);
  }
  require_apart(call, copied);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    void* const data = call.inputs[i].data;
    input.copied = copied[i];
    if (!input.parameter) continue;
    const bool is_new = input.copied && input.memory == nullptr;
    values_.emplace_back(*input.parameter, input.copied ? memory_of(input) : static_cast<std::byte*>(data));
    if (!is_new) continue;
    retain(input.memory);
    grown_ = true;
  }
  if (values_.empty()) return;
  graph_.set(values_);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!copied[i]) inputs_[i].set = call.inputs[i].data;
}

void Entry::copy_inputs(const StreamRef& stream, const Call& call) {
  std::vector<CopyOp> ops;
  std::vector<FillOp> fills;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    if (input.copied) add_copy_in(call.inputs[i], input.data(), input.bytes, ops, fills);
  }
  if (ops.empty()) return;
  shared_.last_launch.launch(stream, [&] { copy_inputs_of(call, ops, stream); });
  if (!fills.empty()) shared_.last_launch.launch(stream, [&] { fill_batch_async(fills, stream); });
}

void Entry::copy_back(const StreamRef& stream, const Call& call) {
  std::vector<CopyOp> ops;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].copied && inputs_[i].written)
      ops.push_back({call.inputs[i].data, inputs_[i].data(), call.inputs[i].bytes});
  if (!ops.empty()) shared_.last_launch.launch(stream, [&] { copy_batch_async(ops, stream); });
}

std::shared_ptr<Lender> Entry::new_results(const StreamRef& stream, const Call& call, bool has_begun) try {
  auto lender = std::make_shared<Lender>(shared_.device);
  lender->owner = memory_for(in_pool_, stream, lender->memory);
  return lender;
} catch (...) {
  if (has_begun) copy_back_after_error(stream, call);
  throw;
}

// Copies inputs that eager parts changed back after an exception, too: an eager run would have changed them before it.
std::exception_ptr Entry::replay_segments(const StreamRef& stream, const Call& call, bool has_begun) try {
  if (!has_begun && !breaks_.empty()) run(breaks_, stream, shared_.last_launch);
  return graphs::replay_in_order(shared_.last_launch, graph_, stream);
} catch (...) {
  if (!breaks_.empty()) copy_back_after_error(stream, call);
  throw;
}

void warn_of_lost_changes(const std::exception& error) noexcept {
  warn(text::format("GraphCache: what a body changed in its inputs before an exception was not copied back: {}",
                    error.what()));
}

void Entry::copy_back_after_error(const StreamRef& stream, const Call& call) noexcept try {
  copy_back(stream, call);
} catch (const std::exception& error) {
  warn_of_lost_changes(error);
}

void rethrow_with(const char* done_and_missing) try { throw; } catch (const OutOfMemoryError& error) {
  throw OutOfMemoryError(text::format("{}: {}", done_and_missing, error.what()), error.statistics());
} catch (const BackendError& error) {
  throw BackendError(error.call(), error.code(),
                     text::format("{}{}{}", done_and_missing, error.detail().empty() ? "" : "; ", error.detail()),
                     error.where());
}

Outcome Entry::launch(const StreamRef& stream, const Call& call) {
  if (plain_ != nullptr) {
    if (const std::exception_ptr thrown = graphs::replay_in_order(shared_.last_launch, graph_, stream))
      std::rethrow_exception(thrown);
    return {};
  }
  if (own_ != nullptr) {
    // Work that it launches counts as a launch, also if it then throws, as a hook of a graph may.
    std::exception_ptr thrown;
    shared_.last_launch.launch(stream, [&] {
      try {
        own_->replay(call.body);
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    if (thrown != nullptr) std::rethrow_exception(thrown);
    return {};
  }
  const bool copies_results = lender_ != nullptr && shared_.options.outputs == CacheOutputs::copy;
  const bool has_begun = std::exchange(breaks_have_run_, false);
  const std::shared_ptr<Lender> copied = copies_results ? new_results(stream, call, has_begun) : nullptr;
  if (!has_begun && !inputs_.empty()) set_inputs(call);
  record_use(stream);
  if (!has_begun && !inputs_.empty()) copy_inputs(stream, call);
  const std::exception_ptr thrown = replay_segments(stream, call, has_begun);
  std::uint64_t number = 0;
  if (lender_ != nullptr) number = lender_->call.fetch_add(1) + 1;
  if (thrown != nullptr) {
    copy_back_after_error(stream, call);
    std::rethrow_exception(thrown);
  }
  if (!inputs_.empty())
    copy_behind("the graph was launched, but what the body changed in its inputs was not copied back",
                [&] { copy_back(stream, call); });
  if (!copies_results) {
    if (lender_ != nullptr && !results_launch_.was_on(stream) && shared_.last_launch.was_on(stream))
      results_launch_ = shared_.last_launch;
    return {lender_, number};
  }
  if (const auto ops = copies(in_pool_, copied->memory); !ops.empty())
    copy_behind("the graph was launched, but its results were not copied",
                [&] { shared_.last_launch.launch(stream, [&] { memory::copy_graph_memory(ops, stream); }); });
  return {copied, 0};
}

std::vector<const CUDAGraph*> Entry::graphs() const {
  if (own_ != nullptr) return own_->graphs();
  std::vector<const CUDAGraph*> all;
  for (const breakables::Break& each : breaks_) all.push_back(&each.segment);
  all.push_back(&graph_);
  return all;
}

graphs::GraphCounts Entry::counts() const {
  graphs::GraphCounts counts;
  for (const CUDAGraph* const each : graphs()) counts += graphs::counts_of(*each);
  return counts;
}

std::uint64_t Entry::bytes() const noexcept {
  if (own_ != nullptr) return own_->bytes();
  std::uint64_t bytes = result_bytes_;
  for (const Input& input : inputs_)
    if (input.memory != nullptr) bytes += input.memory->size_bytes();
  return bytes;
}

}  // namespace reprise::caches
