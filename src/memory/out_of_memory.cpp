// SPDX-License-Identifier: Apache-2.0

#include "backend/backend.h"
#include "backend/check.h"
#include "memory/allocator_impl.h"
#include "memory/pool_ids.h"
#include "text/format.h"

namespace reprise {
namespace {

using memory::Pool;

std::string size_text(std::uint64_t bytes) {
  if (bytes < memory::kib) return text::format("{} bytes", bytes);
  const auto value = static_cast<double>(bytes);
  if (bytes < memory::mib) return text::format("{:.1f} KiB", value / 1024);
  if (bytes < 1024 * memory::mib) return text::format("{:.1f} MiB", value / (1024.0 * 1024));
  return text::format("{:.2f} GiB", value / (1024.0 * 1024 * 1024));
}

std::string names_text(const std::vector<std::string>& graphs) {
  std::string text;
  for (const std::string& name : graphs)
    if (!name.empty()) text += text::format("{}`{}`", text.empty() ? " of " : ", ", name);
  return text;
}

std::string pool_text(const Pool& pool) {
  const PoolStatistics& statistics = pool.statistics;
  const char* const state = !pool.is_private()    ? ""
                            : pool.filled_by      ? ", being captured"
                            : pool.graphs.empty() ? ", no graph"
                                                  : "";
  return text::format("\n  {}{}{}: {}, {} of it in use",
                      pool.is_private() ? "private pool " + memory::pool_id_text(pool.id) : "default pool",
                      names_text(pool.graphs), state, size_text(statistics.reserved_bytes),
                      size_text(statistics.allocated_bytes));
}

}  // namespace

void CachingAllocator::Impl::throw_out_of_memory(std::size_t bytes, const memory::Request& request, const Pool& pool) {
  MemoryInfo info;
  {
    const backend::RelaxedCaptureMode relaxed(device_.backend());
    backend::WarnOnError(device_.backend()).memory_info(&info);
  }
  OutOfMemoryError::Statistics statistics;
  statistics.requested = bytes;
  statistics.device_free = info.free;
  statistics.device_total = info.total;
  statistics.reserved = total_.reserved_bytes;
  statistics.allocated = total_.allocated_bytes;
  statistics.private_pools = total_.reserved_bytes - default_pool_.statistics.reserved_bytes;

  std::string text = text::format(
      "out of memory on {}: {} were requested{}, which needs a new segment of {}; the device has {} free of {}. This "
      "allocator holds {}, {} of it in use:",
      device_.str(), size_text(bytes), pool.is_private() ? " in a capture" : "", size_text(request.segment_bytes),
      size_text(info.free), size_text(info.total), size_text(total_.reserved_bytes), size_text(total_.allocated_bytes));
  text += pool_text(default_pool_);
  for (const auto& entry : private_pools_) text += pool_text(entry.second);
  text +=
      "\nFree buffers, or reset graphs, that are no longer needed; use smaller batches; let graphs that are replayed "
      "in the order of their captures share one pool (GraphOptions::pool)";
  if (total_.reserved_bytes + info.free < info.total) text += "; the rest of the device's memory is in use elsewhere";
  throw OutOfMemoryError(text + ".", statistics);
}

}  // namespace reprise
