// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/paired_runs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/check.h"

namespace reprise::inspect {

using backend::Checked;

PairedRuns::PairedRuns(const SteppedGraph& first, const SteppedGraph& second, const ComparedMemory& memory)
    : memory_(memory), backend_(first.graph.graph().backend()), stream_(*first.graph.graph().device), nodes_(backend_) {
  make(Side::first, first);
  make(Side::second, second);
}

PairedRuns::~PairedRuns() {
  const backend::WarnOnError runtime(backend_);
  StreamHandle const on = stream();
  if (has_saved_) saved_.write(runtime, on);
  runtime.stream_synchronize(on);
}

void PairedRuns::make(Side side, const SteppedGraph& graph) {
  auto& execs = execs_[static_cast<std::size_t>(side)];
  for (std::size_t step = 0; step < graph.steps.node.size(); ++step) {
    const std::size_t node = graph.steps.node[step];
    GraphExecHandle exec = nullptr;
    if (graph.runs(step))
      exec = nodes_.make(graph.graph.values.nodes[node], [&] { return graph.graph.describe(node).str(); });
    execs.push_back(exec);
  }
}

void PairedRuns::save(Options options) {
  options_ = std::move(options);
  std::vector<MemoryRange> words;
  for (const RangePair& pair : options_.words) words.push_back(pair.of(Side::first));
  words_ = MemoryImage(backend_, stream(), std::move(words));
  saved_ = MemoryImage(backend_, stream(), options_.saved);
  has_saved_ = true;
}

void PairedRuns::restore() {
  saved_.write(Checked(backend_), stream());
  wait();
  has_saved_ = false;
}

void PairedRuns::begin(Side side) {
  const Checked runtime(backend_);
  StreamHandle const on = stream();
  saved_.write(runtime, on);
  if (side == Side::second)
    for (const RangePair& own : memory_.own())
      runtime.copy_async(reinterpret_cast<void*>(own.second), reinterpret_cast<const void*>(own.first), own.bytes, on);
  for (std::size_t i = 0; i < options_.words.size(); ++i)
    runtime.copy_async(reinterpret_cast<void*>(options_.words[i].begin(side)), words_.of(i).data(), words_.of(i).size(),
                       on);
}

void PairedRuns::launch(Side side, std::size_t step) {
  GraphExecHandle const exec = execs_[static_cast<std::size_t>(side)][step];
  if (exec != nullptr) Checked(backend_).graph_launch(exec, stream());
}

void PairedRuns::wait() const {
  Checked(backend_).stream_synchronize(stream());
}

std::uint64_t digest(const ComparedMemory& memory, Side side, std::uint64_t before, std::uintptr_t address,
                     std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    const std::size_t there = std::min(bytes.size() - at, sizeof word);
    std::memcpy(&word, bytes.data() + at, there);
    if (there == sizeof word && address % sizeof word == 0) word = memory.canonical(side, word);
    before = (before ^ word) * 0x9E3779B97F4A7C15U;
    before ^= before >> 29U;
  }
  return before;
}

}  // namespace reprise::inspect
