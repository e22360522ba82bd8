// SPDX-License-Identifier: Apache-2.0
#include "memory/watches/allocation_stacks.h"

#include <algorithm>
#include <string_view>

#include "backend/framework.h"
#include "backend/rules/call_stack.h"
#include "reprise/liveness.h"
#include "support/environment.h"

namespace reprise {
namespace memory {
namespace {

// True for functions of the allocator, of the owners of its memory, and of copies.
bool is_ours(const std::string& line) {
  constexpr std::string_view parts[] = {"reprise::CachingAllocator::", "reprise::Buffer<",
                                        "reprise::detail::", "reprise::memory::", "reprise::copy_async("};
  return std::ranges::any_of(parts, [&](std::string_view part) { return line.starts_with(part); });
}

}  // namespace

std::atomic<bool> stacks_detail::recorded{support::environment_flag("REPRISE_MEMORY_STACKS")};

std::vector<std::string> allocation_stack() noexcept {
  std::vector<std::string> lines = backend::call_stack();
  lines.erase(lines.begin(), std::find_if_not(lines.begin(), lines.end(), is_ours));
  return lines;
}

}  // namespace memory

void record_allocation_stacks(bool on) {
  memory::stacks_detail::recorded.store(on, std::memory_order_relaxed);
  const backend::Framework* const framework = backend::installed_framework();
  if (on && framework != nullptr) framework->allocation_stacks_wanted();
}

}  // namespace reprise
