// SPDX-License-Identifier: Apache-2.0
#include "backend/host/memory/allocation_node_memory.h"

namespace reprise::backend::host {

std::shared_ptr<GraphMemory> GraphMemory::reserve(DeviceMemory& memory, std::size_t bytes) {
  void* address = nullptr;
  if (memory.reserve(&address, bytes) != ErrorCode::success) return nullptr;
  try {
    return std::shared_ptr<GraphMemory>(new GraphMemory(memory, address, bytes));
  } catch (...) {
    (void)memory.free(address);
    throw;
  }
}

}  // namespace reprise::backend::host
