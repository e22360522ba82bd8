// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/listeners/capture_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/liveness/graph_scan.h"
#include "inspect/liveness/input_source.h"
#include "memory/watches/allocation_log.h"
#include "memory/watches/block_watch.h"
#include "reprise/detail/export.h"
#include "reprise/liveness.h"

namespace reprise::inspect {

/// Checks before each replay that the memory which the graph uses was not freed, or keeps it alive.
///
/// Without an option for that, only memory counts that was freed before the end of the capture. Such a graph takes
/// part in replays, which are refused; any other one does not.
///
/// Inputs are found when the capture has ended, and again when values of nodes were changed. Memory of CachingAllocator
/// and of a framework is watched: until a watched block of any graph is freed, a replay costs a load and a compare.
/// Memory of the driver is queried.
class LivenessListener final : public graphs::ListenerOf<LivenessListener> {
 public:
  explicit LivenessListener(const AnnotationListener& annotations) : annotations_(annotations) {}

  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& /*capture*/) noexcept override { reset(); }
  void added_as_child(const captures::ChildNode& /*child*/) override { require_live("add_child"); }
  void inherit_from(const LivenessListener& before) override {
    looks_for_freed_tensors_ = before.looks_for_freed_tensors_;
  }
  std::function<void()> adopt_from(const LivenessListener& theirs, graphs::Adoption& adoption) override;
  bool nodes_changed(GraphHandle template_graph, graphs::NodeChanges& known_nodes, graphs::GraphResources& resources,
                     std::span<const graphs::SetPlace> set) override;
  bool wants_same_values() const override {
    return (queries_ || memory::BlockWatch::frees.load(std::memory_order_acquire) != seen_frees_) && any_dead();
  }
  void before_replay(const StreamRef& /*stream*/) override {
    const std::uint64_t frees = memory::BlockWatch::frees.load(std::memory_order_acquire);
    if (frees != seen_frees_ || queries_) check(frees);
  }
  /// Finds tensors that are freed in the next captures, too, also where no option looks for inputs.
  void look_for_freed_tensors() noexcept { looks_for_freed_tensors_ = true; }
  /// The same, for a segment: require_live_since() or recorded() follows when the last one has ended.
  void look_for_freed_until_recorded() noexcept { looks_for_freed_tensors_ = in_recording_ = true; }
  /// \throws DeadInputError if memory was freed that the graph uses, as a replay would. Memory of the driver is not
  ///         checked.
  REPRISE_EXPORT_INTERNAL void require_live(const char* call);
  /// \throws DeadInputError if memory that the captured segment uses was freed since `frees` was made; where no option
  ///         looks for inputs, also of other segments and between them, and only certain uses count.
  void require_live_since(const memory::FreeLog& frees, const char* call, const CUDAGraph& segment);
  void recorded() noexcept {
    if (!looks_for_all_) reset();
  }
  void reset() noexcept override;

  /// Copies the list of the memory that is retained: changes of this graph's nodes leave the copy as it is.
  void replace_by_copies(memory::ReleaseQueue::Resources& shared) const override {
    if (retained_ == nullptr) return;
    std::ranges::replace(shared, std::shared_ptr<void>(retained_),
                         std::shared_ptr<void>(std::make_shared<Retained>(*retained_)));
  }

  /// Inputs of the last capture, by address; then nodes of unknown parameters.
  /// nullopt if inputs were not looked for.
  std::optional<std::vector<GraphInput>> inputs() const;

 private:
  // Checked memory of an allocator, and of the driver; `input` is an index in Inputs::list.
  struct Block {
    std::size_t input;
    std::shared_ptr<memory::BlockWatch> watch;
  };
  struct Range {
    std::size_t input;
    std::uint64_t id;  // of the allocation
  };
  /// Where memory of the graph is looked up: on its device, but in the pools that it owns; and in a framework's.
  struct Allocators {
    Device device;
    std::vector<MempoolId> own_pools;
    std::shared_ptr<InputSource> source;  // null without a framework that has inputs here
  };
  struct Finding;
  /// A word of the nodes, and the memory that it leads to; null: none that counts.
  struct Use {
    ScannedWord word;
    std::shared_ptr<const Finding> memory;
  };
  struct Inputs {
    std::vector<Use> uses;  // by node and place
    std::vector<GraphInput> list;
    std::vector<Block> blocks;
    std::vector<Range> ranges;
    std::shared_ptr<memory::RetainedBlocks> retained = std::make_shared<memory::RetainedBlocks>();
    bool queries = false;  // some are queried before each replay
  };

  using MemoryByAddress = std::map<std::uintptr_t, std::shared_ptr<const Finding>>;

  std::vector<memory::UsedAddress> find_addresses(const GraphScan& scan, std::span<const graphs::SetPlace> set,
                                                  const memory::FreeLog* frees);
  MemoryByAddress find_memory(std::span<const memory::UsedAddress> addresses);
  bool is_used(const GraphScan& scan, const ScannedWord& word, const Finding& finding) const;
  bool is_certainly_used(const GraphScan& scan, const ScannedWord& word, const Finding& finding,
                         std::span<const memory::UsedAddress> addresses) const;
  bool is_end_of(std::uintptr_t address, const memory::UsedAddress& found, std::uintptr_t end) const;
  const Use* known_use(const GraphScan& scan, const ScannedWord& word,
                       std::span<const graphs::SetPlace> set) const noexcept;
  /// \param frees a log of frees, once the capture's own is gone.
  Inputs look(const GraphScan& scan, std::span<const graphs::SetPlace> set, const memory::FreeLog* frees = nullptr);
  void add(Inputs& inputs, const Finding& finding, std::vector<std::string>&& users) const;
  /// Warns of them if there are more than `known`. `notes`: gets a sentence for each; may be null.
  void list_omissions(Inputs& inputs, const GraphScan& scan, std::size_t known, std::vector<std::string>* notes) const;
  void keep(Inputs&& inputs) noexcept;
  void check(std::uint64_t frees);
  enum class Dead { no, freed, given_out_again };
  Dead is_dead(const Range& range) const;
  bool any_dead() const;
  std::vector<DeadInput> dead_blocks() const;
  [[noreturn]] void refuse(const char* call, std::vector<DeadInput>&& dead) const;

  const AnnotationListener& annotations_;
  bool looks_for_freed_tensors_ = false;
  bool in_recording_ = false;
  std::optional<memory::FreeLog> free_log_;  // while the capture is underway

  backend::Backend* backend_ = nullptr;
  std::string name_;  // of the graph, for errors
  InputOptions options_;
  bool looks_for_all_ = false;            // by an option; else for what is dead at the end of the capture
  std::shared_ptr<InputSource> source_;   // while the capture is underway; then `allocators_` has it
  std::optional<Allocators> allocators_;  // as long as there are inputs
  std::vector<Use> uses_;                 // likewise: words that do not change keep their memory, also if freed
  std::vector<memory::AllocationLog::Allocation> allocations_;  // of the capture, while its inputs are looked for
  std::optional<std::vector<GraphInput>> inputs_;
  std::vector<Block> blocks_;
  std::vector<Range> ranges_;
  // Objects that the graph's resources hold for this listener, which replaces them when inputs change.
  struct Retained {
    std::shared_ptr<memory::RetainedBlocks> blocks;
  };
  std::shared_ptr<Retained> retained_;  // changes with the nodes: another graph gets a copy
  bool queries_ = false;                // some inputs are queried before each replay
  std::uint64_t seen_frees_ = 0;        // BlockWatch::frees when all blocks were last found alive
};

}  // namespace reprise::inspect
