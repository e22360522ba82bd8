// SPDX-License-Identifier: Apache-2.0
#include "memory/pool_ids.h"

#include <atomic>

#include "text/format.h"

namespace reprise {
namespace {

std::atomic<std::uint64_t> last_number{0};
std::atomic<memory::PoolIdSource> other_source{nullptr};

MempoolId new_id(bool by_user) {
  if (const memory::PoolIdSource source = other_source.load(std::memory_order_acquire)) return source(by_user);
  const std::uint64_t number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  return by_user ? MempoolId{0, number} : MempoolId{number, 0};
}

}  // namespace

MempoolId graph_pool_handle() {
  return new_id(true);
}

namespace memory {

MempoolId new_capture_pool_id() {
  return new_id(false);
}

PoolIdSource use_pool_ids_of(PoolIdSource source) {
  const PoolIdSource before = other_source.exchange(source, std::memory_order_acq_rel);
  const std::uint64_t given_out = last_number.load(std::memory_order_relaxed);
  for (const bool by_user : {false, true})
    for (MempoolId id; source != nullptr && id.first + id.second < given_out;) id = source(by_user);
  return before;
}

std::string pool_id_text(MempoolId id) {
  return text::format("({}, {})", id.first, id.second);
}

}  // namespace memory
}  // namespace reprise
