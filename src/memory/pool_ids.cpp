// SPDX-License-Identifier: Apache-2.0
#include "memory/pool_ids.h"

#include <atomic>
#include <optional>

#include "backend/framework.h"
#include "text/format.h"

namespace reprise {
namespace {

std::atomic<std::uint64_t> last_number{0};  // that this library gave out by itself

// Ids of a framework begin after the numbers that this library used before it was installed.
std::optional<MempoolId> id_of_framework(bool by_user) {
  const backend::Framework* const framework = backend::installed_framework();
  if (framework == nullptr) return std::nullopt;
  const std::uint64_t given_out = last_number.load(std::memory_order_relaxed);
  std::optional<MempoolId> id;
  do {
    id = framework->new_pool_id(by_user);
  } while (id && id->first + id->second <= given_out);
  return id;
}

MempoolId new_id(bool by_user) {
  if (const std::optional<MempoolId> id = id_of_framework(by_user)) return *id;
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

// Numbers of a framework ascend: those before a new one are made.
bool is_made(MempoolId id) {
  const bool by_user = id.second != 0;
  const std::uint64_t number = id.first + id.second;
  if (by_user == (id.first != 0)) return false;
  if (number <= last_number.load(std::memory_order_relaxed)) return true;
  static constinit std::atomic<std::uint64_t> known[2] = {};  // numbers up to these, of captures and of users
  if (number <= known[by_user].load(std::memory_order_relaxed)) return true;
  const std::optional<MempoolId> next = id_of_framework(by_user);
  if (!next) return false;
  const std::uint64_t made = next->first + next->second - 1;
  known[by_user].store(made, std::memory_order_relaxed);
  return number <= made;
}

std::string pool_id_text(MempoolId id) {
  return text::format("({}, {})", id.first, id.second);
}

}  // namespace memory
}  // namespace reprise
