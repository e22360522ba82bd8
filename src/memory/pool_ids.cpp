// SPDX-License-Identifier: Apache-2.0
#include "memory/pool_ids.h"

#include <fmt/format.h>

#include <atomic>

namespace reprise {
namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

MempoolId graph_pool_handle() {
  return {0, next_number()};
}

namespace memory {

MempoolId new_capture_pool_id() {
  return {next_number(), 0};
}

std::string pool_id_text(MempoolId id) {
  return fmt::format("({}, {})", id.first, id.second);
}

}  // namespace memory
}  // namespace reprise
