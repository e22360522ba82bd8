// SPDX-License-Identifier: Apache-2.0
#include "memory/watches/copy_origins.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "memory/watches/allocation_stacks.h"

namespace reprise::memory {
namespace {

struct CopyOrigins {
  std::mutex mutex;
  std::map<const void*, std::vector<std::string>> stacks;  // by address, of the last copy
};

constinit captures::Slot<CopyOrigins> copy_origins;

}  // namespace

void detail::note_copy(const void* destination, const void* source, const StreamRef& stream) {
  bool any_full = false;
  captures::for_each([&](const captures::Capture& capture) { any_full |= capture.reports_in_full(); });
  if (!any_full) return;
  const std::shared_ptr<captures::Capture> capture = captures::find(stream).capture;
  if (capture == nullptr || !capture->reports_in_full()) return;
  const auto origins = capture->get_or_attach(copy_origins);
  if (origins == nullptr) return;
  const std::vector<std::string> stack = allocation_stack();
  const std::lock_guard lock(origins->mutex);
  for (const void* const address : std::array{destination, source}) origins->stacks[address] = stack;
}

std::vector<std::string> copy_origin(const captures::Capture& capture, const void* address) {
  const auto origins = capture.get(copy_origins);
  if (origins == nullptr) return {};
  const std::lock_guard lock(origins->mutex);
  const auto found = origins->stacks.find(address);
  return found != origins->stacks.end() ? found->second : std::vector<std::string>();
}

}  // namespace reprise::memory
