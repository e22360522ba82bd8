// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/capture_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/liveness/graph_scan.h"
#include "inspect/liveness/input_source.h"
#include "inspect/liveness/watched_pointers.h"
#include "memory/watches/block_watch.h"
#include "reprise/liveness.h"

namespace reprise::inspect {

/// Checks before each replay that the memory which the graph uses was not freed, or keeps it alive.
///
/// Inputs are found once, when the capture has ended. Memory of CachingAllocator and of a framework is watched: until a
/// watched block of any graph is freed, a replay costs a load and a compare. Memory of the driver is queried.
class LivenessListener final : public graphs::CaptureListener {
 public:
  explicit LivenessListener(const AnnotationListener& annotations) : annotations_(annotations) {}

  void after_dry_run(graphs::CaptureListener& listener) override;
  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& /*capture*/) noexcept override { reset(); }
  void before_replay(const StreamRef& stream) override {
    const std::uint64_t frees = memory::BlockWatch::frees.load(std::memory_order_acquire);
    if (frees != seen_frees_ || queries_) check(frees, stream);
  }
  void reset() noexcept override;

  /// Of the last capture, by address, and what watched pointers lead to; then nodes whose parameters are not known.
  /// nullopt if inputs were not looked for.
  std::optional<std::vector<GraphInput>> inputs() const;

  /// As CUDAGraph::watch_pointers(), after a capture that looked for inputs. From then on this listener takes part in
  /// replays. Not during one. \throws UsageError
  void watch_pointers(const Device& device, MempoolId pool, const void* const* table, std::size_t count);
  void pointers_changed() noexcept;

 private:
  // Checked memory of an allocator, and of the driver; `input` is an index in inputs_.
  struct Block {
    std::size_t input;
    std::shared_ptr<memory::BlockWatch> watch;
  };
  struct Range {
    std::size_t input;
    std::uint64_t id;  // of the allocation
  };
  struct Finding;

  std::vector<memory::UsedAddress> find_addresses(const captures::Capture& capture, const GraphScan& scan);
  void look(const captures::Capture& capture, const GraphScan& scan);
  bool is_used(const ScannedNode& node, const Finding& finding, std::uintptr_t address);
  void add(const GraphOptions& options, Finding&& finding);
  void list_omissions(const GraphScan& scan, graphs::CapturedGraph& graph);
  void check(std::uint64_t frees, const StreamRef& stream);

  const AnnotationListener& annotations_;
  std::optional<memory::FreeLog> free_log_;  // while the capture is underway
  std::unique_ptr<InputSource> source_;      // likewise; null without a framework that has inputs here
  std::unique_ptr<GraphScan> scan_;          // of a dry run
  std::unique_ptr<GraphScan> dry_run_;       // of the dry run before this capture

  backend::Backend* backend_ = nullptr;
  std::string name_;  // of the graph, for errors
  std::optional<std::vector<GraphInput>> inputs_;
  std::vector<Block> blocks_;
  std::vector<Range> ranges_;
  std::optional<WatchedPointers::Graph> graph_;  // as long as there are inputs
  WatchedPointers pointers_;
  std::shared_ptr<memory::RetainedBlocks> retained_;  // until the graph holds them
  bool queries_ = false;                              // some inputs are queried before each replay
  std::uint64_t seen_frees_ = 0;                      // BlockWatch::frees when all blocks were last found alive
};

}  // namespace reprise::inspect
