// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string_view>
#include <utility>

#include "backend/backend.h"
#include "backend/check.h"
#include "memory/allocator_impl.h"
#include "memory/node_memory.h"
#include "memory/pool_ids.h"
#include "text/format.h"
#include "text/size.h"

namespace reprise {
namespace {

using memory::Pool;
using text::size_text;

constexpr std::size_t most_names = 16;

// " of `encoder`, `decoder` (3 graphs), 2 without a name"; empty for graphs that all have none.
std::string names_text(const std::vector<std::string>& graphs) {
  std::vector<std::pair<std::string_view, std::size_t>> counted;
  std::size_t unnamed = 0, further = 0;
  for (const std::string& name : graphs) {
    const auto known = std::ranges::find(counted, std::string_view(name), [](const auto& each) { return each.first; });
    if (name.empty())
      ++unnamed;
    else if (known != counted.end())
      ++known->second;
    else if (counted.size() < most_names)
      counted.emplace_back(name, 1);
    else
      ++further;
  }
  if (counted.empty()) return unnamed > 1 ? text::format(" of {} graphs", unnamed) : "";
  std::string text;
  for (const auto& [name, number] : counted) {
    text += text::format("{}`{}`", text.empty() ? " of " : ", ", name);
    if (number > 1) text += text::format(" ({} graphs)", number);
  }
  if (further != 0) text += text::format(", {} with other names", further);
  if (unnamed != 0) text += text::format(", {} without a name", unnamed);
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

std::string CachingAllocator::Impl::holdings_text() const {
  std::string text =
      text::format("{}, {} of it in use:", size_text(total_.reserved_bytes), size_text(total_.allocated_bytes));
  text += pool_text(default_pool_);
  for (const auto& entry : private_pools_) text += pool_text(entry.second);
  return text + memory::NodeMemory::text(device_);
}

OutOfMemoryError::Statistics CachingAllocator::Impl::statistics_without_memory(std::size_t bytes) const {
  MemoryInfo info;
  const backend::RelaxedCaptureMode relaxed(device_.backend());
  backend::WarnOnError(device_.backend()).memory_info(&info);
  return {.requested = bytes,
          .device_free = info.free,
          .device_total = info.total,
          .reserved = total_.reserved_bytes,
          .allocated = total_.allocated_bytes,
          .private_pools = total_.reserved_bytes - default_pool_.statistics.reserved_bytes};
}

void CachingAllocator::Impl::throw_driver_out_of_memory(const char* call, std::size_t bytes) const {
  const Lock lock(mutex_);
  const OutOfMemoryError::Statistics statistics = statistics_without_memory(bytes);
  throw OutOfMemoryError(
      text::format("{}: out of memory on {}: {} bytes were requested; the device has {} free of {}. The caching "
                   "allocator holds {}\nFree memory, reset graphs that are no longer needed, or request less.",
                   call, device_.str(), bytes, size_text(statistics.device_free), size_text(statistics.device_total),
                   holdings_text()),
      statistics);
}

void CachingAllocator::Impl::throw_out_of_memory(std::size_t bytes, const memory::Request& request, const Pool& pool) {
  const OutOfMemoryError::Statistics statistics = statistics_without_memory(bytes);
  std::string text = text::format(
      "out of memory on {}: {} were requested{}, which needs a new segment of {}; the device has {} free of {}. This "
      "allocator holds {}",
      device_.str(), size_text(bytes), pool.is_private() ? " in a capture" : "", size_text(request.segment_bytes),
      size_text(statistics.device_free), size_text(statistics.device_total), holdings_text());
  text +=
      "\nFree buffers, or reset graphs, that are no longer needed; use smaller batches; let graphs that are replayed "
      "in the order of their captures share one pool (GraphOptions::pool)";
  if (statistics.reserved + statistics.device_free < statistics.device_total)
    text += "; the rest of the device's memory is in use elsewhere";
  throw OutOfMemoryError(text + ".", statistics);
}

}  // namespace reprise
