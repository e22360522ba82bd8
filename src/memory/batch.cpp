// SPDX-License-Identifier: Apache-2.0
#include "reprise/batch.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/own_kernels.h"
#include "backend/own_records.h"
#include "captures/registry.h"
#include "kernels/batch_kernels.h"
#include "memory/allocator_impl.h"
#include "memory/copy_nodes.h"
#include "reprise/detail/public_call.h"
#include "reprise/kernel.h"
#include "text/format.h"

namespace reprise {
namespace {

using memory::BatchTable;

struct CopyBatch {
  REPRISE_KERNEL void operator()(Block& block, const memory::CopyTable table) const {
    memory::copy_chunk(block, table);
  }
  static std::vector<MemoryAccess> accesses(const memory::CopyTable& table) {
    std::vector<MemoryAccess> all;
    for (const CopyOp& op : std::span(table.ops, table.count)) {
      all.push_back({op.source, op.bytes, false});
      all.push_back({op.destination, op.bytes, true});
    }
    return all;
  }
};
struct FillBatch {
  REPRISE_KERNEL void operator()(Block& block, const memory::FillTable table) const {
    memory::fill_chunk(block, table);
  }
  static std::vector<MemoryAccess> accesses(const memory::FillTable& table) {
    std::vector<MemoryAccess> all;
    for (const FillOp& op : std::span(table.ops, table.count)) all.push_back({op.destination, op.bytes, true});
    return all;
  }
};

void require_kernels(const char* call, const Device& device) {
  if (device.type() == DeviceType::host) return;
  if (const std::string& why = backend::own_kernels_unavailable(); !why.empty())
    throw UsageError(
        text::format("{} needs a kernel of this library for {}; {}, or submit each operation with copy_async() or "
                     "fill_async()",
                     call, device.str(), why));
}

constexpr std::uint64_t most_blocks = std::numeric_limits<std::int32_t>::max();  // of a grid

// A range (source or destination) of an operation, with its name for errors.
struct OperationRange {
  const char* call;
  std::size_t index;  // of the operation
  const char* what;
  const void* address;
  std::size_t bytes;
};

// The runtime is not queried on CUDA: that would cost more than the launch; beyond the allocator's blocks, a wrong
// range is a fault of the device there.
void require_usable(const Device& device, const OperationRange& range) {
  const auto refuse = [&](const char* found) {
    throw UsageError(text::format(
        "{} needs addresses that a kernel can use; the {} of operation {} is {}: use device memory or pinned "
        "memory, or copy_async(), which takes any",
        range.call, range.what, range.index, found));
  };
  const auto refuse_size = [&](std::size_t most, const std::string& where) {
    throw UsageError(text::format("{} expected at most {} bytes{}; the {} of operation {} has {} bytes at {}",
                                  range.call, most, where, range.what, range.index, range.bytes, range.address));
  };
  if (range.address == nullptr) refuse("null");
  const std::size_t most = std::min(SIZE_MAX - reinterpret_cast<std::uintptr_t>(range.address),
                                    std::size_t{most_blocks} * memory::batch_chunk_bytes);
  if (range.bytes > most) refuse_size(most, ", which a grid can have and which end at the last address");
  if (const auto block = memory::exceeded_block(device, range.address, range.bytes)) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(range.address) - block->address);
    refuse_size(block->bytes - std::min(offset, block->bytes),
                text::format(" up to the end of the block of {} bytes at {}", block->bytes,
                             static_cast<const void*>(block->address)));
  }
  if (device.type() != DeviceType::host) return;
  const backend::PointerInfo info = backend::Checked(device.backend()).info_of(range.address);
  if (info.kind == backend::MemoryKind::unregistered) refuse("pageable memory of the host");
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(range.address) - static_cast<const std::byte*>(info.base));
  if (range.bytes > info.bytes - offset)
    refuse_size(info.bytes - offset, text::format(" up to the end of the memory of {} bytes at {}", info.bytes,
                                                  static_cast<const void*>(info.base)));
}

struct Copies {
  static constexpr const char* call = "copy_batch_async";
  static constexpr const char* symbol = "reprise_copy_batch";
  using Kernel = CopyBatch;
  static void require(const Device& device, std::size_t index, const CopyOp& op) {
    require_usable(device, {call, index, "destination", op.destination, op.bytes});
    require_usable(device, {call, index, "source", op.source, op.bytes});
  }
  static CopyOp prepare(const CopyOp& op) { return op; }
};

struct Fills {
  static constexpr const char* call = "fill_batch_async";
  static constexpr const char* symbol = "reprise_fill_batch";
  using Kernel = FillBatch;
  static void require(const Device& device, std::size_t index, const FillOp& op) {
    require_usable(device, {call, index, "destination", op.destination, op.bytes});
    const unsigned width = op.pattern_bytes;
    if ((width == 1 || width == 2 || width == 4 || width == 8) && op.bytes % width == 0 &&
        reinterpret_cast<std::uintptr_t>(op.destination) % width == 0)
      return;
    throw UsageError(text::format(
        "{} needs patterns of 1, 2, 4 or 8 bytes, and a destination and a number of bytes that are multiples "
        "of that; operation {} has {} bytes at {} and a pattern of {} bytes",
        call, index, op.bytes, op.destination, width));
  }
  // The kernel takes patterns of 8 bytes.
  static FillOp prepare(FillOp op) {
    if (op.pattern_bytes < 8) op.pattern &= (std::uint64_t{1} << (8 * op.pattern_bytes)) - 1;
    for (unsigned width = op.pattern_bytes; width < 8; width *= 2) op.pattern |= op.pattern << (8 * width);
    op.pattern_bytes = 8;
    return op;
  }
};

template <class Kind, class Op>
void launch_table(const StreamRef& stream, BatchTable<Op>& table) {
  if (table.count == 0) return;
  const LaunchConfig config{.grid = table.first_block[table.count], .block = memory::batch_block_threads};
  void* params[] = {&table, nullptr};
  detail::launch_kernel(stream, config, backend::make_own_record<typename Kind::Kernel>(Kind::symbol), params);
  table.count = 0;
}

template <class Kind, class Op>
void launch_all(std::span<const Op> batch, const StreamRef& stream) {
  BatchTable<Op> table;
  for (const Op& op : batch) {
    const std::uint64_t blocks = (std::uint64_t{op.bytes} + memory::batch_chunk_bytes - 1) / memory::batch_chunk_bytes;
    if (blocks == 0) continue;
    if (table.count == batch_ops_per_kernel || table.first_block[table.count] + blocks > most_blocks)
      launch_table<Kind>(stream, table);
    table.ops[table.count] = Kind::prepare(op);
    table.first_block[table.count + 1] = table.first_block[table.count] + static_cast<unsigned>(blocks);
    ++table.count;
  }
  launch_table<Kind>(stream, table);
}

template <class Kind, class Op>
void run(std::span<const Op> batch, const StreamRef& stream) {
  const Device device = stream.device();
  require_kernels(Kind::call, device);
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (batch[i].bytes != 0) Kind::require(device, i, batch[i]);
  launch_all<Kind>(batch, stream);
}

}  // namespace

namespace memory {
namespace {

// The number of blocks for the copies of a table. A grid has at least one, which does nothing for an empty table.
LaunchConfig deal_out(CopyTable& table) {
  for (unsigned i = 0; i < table.count; ++i)
    table.first_block[i + 1] =
        table.first_block[i] + static_cast<unsigned>((table.ops[i].bytes + batch_chunk_bytes - 1) / batch_chunk_bytes);
  return {.grid = std::max(table.first_block[table.count], 1U), .block = batch_block_threads};
}

GraphNodeHandle last_node_of(const StreamRef& stream) {
  const captures::Found found = captures::find(stream);
  if (found.info.dependencies.empty()) captures::refuse_broken("copies of results on");  // by another thread
  return found.info.dependencies.front();
}

}  // namespace

void CopyNodes::capture(const StreamRef& stream, std::size_t count) {
  if (count == 0) return;
  require_kernels("A graph with copies", stream.device());
  device_ = stream.device();
  nodes_.reserve((count + batch_ops_per_kernel - 1) / batch_ops_per_kernel);
  for (; count > 0; count -= nodes_.back().table.count) {
    Node& node = nodes_.emplace_back();
    node.table.count = static_cast<unsigned>(std::min(count, batch_ops_per_kernel));
    void* params[] = {&node.table, nullptr};
    const LaunchConfig config = deal_out(node.table);
    reprise::detail::launch_kernel(stream, config, backend::make_own_record<CopyBatch>(Copies::symbol), params);
    node.handle = last_node_of(stream);
  }
}

void CopyNodes::update(GraphExecHandle exec, Node& node) {
  const backend::Checked runtime(device_->backend());
  backend::KernelNodeParams kernel;
  void* params[] = {&node.table, nullptr};
  kernel.config = deal_out(node.table);
  kernel.params = params;
  runtime.kernel_function(backend::make_own_record<CopyBatch>(Copies::symbol), &kernel.function);
  runtime.graph_exec_node_set_params(exec, node.handle, kernel);
  node.up_to_date = true;
}

void copy_graph_memory(std::span<const CopyOp> batch, const StreamRef& stream) {
  if (batch.empty()) return;
  if (batch.size() == 1 && batch[0].bytes != 0) {
    backend::Checked(stream.device().backend())
        .copy_async(batch[0].destination, batch[0].source, batch[0].bytes, stream.native());
    return;
  }
  require_kernels(Copies::call, stream.device());
  launch_all<Copies>(batch, stream);
}

}  // namespace memory

void copy_batch_async(std::span<const CopyOp> batch, const StreamRef& stream) {
  const detail::PublicCall call("copy_batch_async");
  run<Copies>(batch, stream);
}

void fill_batch_async(std::span<const FillOp> batch, const StreamRef& stream) {
  const detail::PublicCall call("fill_batch_async");
  run<Fills>(batch, stream);
}

}  // namespace reprise
