// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backend/host/host_runtime.h"
#include "backend/host/races/race_check.h"
#include "backend/host/run/running.h"
#include "backend/host_work.h"
#include "text/format.h"

// The accesses of each kind of work.

namespace reprise::backend::host {
namespace {

struct AccessList {
  HostRuntime& runtime;
  bool in_graph;
  std::string name;  // of the work
  std::vector<Access> accesses = {};

  void add(const void* pointer, std::size_t bytes, bool writes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
    if (bytes > UINTPTR_MAX - begin)
      throw UsageError(
          text::format("the race check expected accesses to at most {} bytes from {}, which end at the last address; "
                       "found {} that {} {} bytes; correct what the kernel declares",
                       UINTPTR_MAX - begin, pointer, name, writes ? "writes" : "reads", bytes));
    if (pointer != nullptr && bytes > 0) accesses.push_back({begin, begin + bytes, writes, name});
  }
  void add_copied(const void* pointer, std::size_t bytes, bool writes) {
    if (in_graph || pointer_info(runtime, pointer).kind != MemoryKind::unregistered) add(pointer, bytes, writes);
  }

  // Operands of functions of the host may lie in memory of the host.
  void require_accessible(const KernelRecord& kernel, const MemoryAccess& access) const {
    if (access.address == nullptr || access.bytes == 0 || is_enqueued(kernel) ||
        pointer_info(runtime, access.address).kind != MemoryKind::unregistered ||
        !DeviceMemory::owner_of(access.address).empty())
      return;
    throw UsageError(text::format(
        "kernel {} expected memory of a device or pinned memory (Buffer, HostBuffer); found {}, of which it "
        "{} {} bytes, in pageable memory of the host. A GPU that cannot access such memory "
        "(cudaDevAttrPageableMemoryAccess is 0) fails with 700, illegal address: copy the values to a "
        "Buffer first.",
        kernel.name, access.address, access.writes ? "writes" : "reads", access.bytes));
  }

  void operator()(const KernelWork& work) {
    if (work.kernel().accesses == nullptr) return;
    const KernelNodeParams params = work.params();
    for (const MemoryAccess& access : work.kernel().accesses(params.params)) {
      require_accessible(work.kernel(), access);
      add(access.address, access.bytes, access.writes);
    }
  }
  void operator()(const MemcpyNodeParams& work) {
    add_copied(work.source, work.bytes, false);
    add_copied(work.destination, work.bytes, true);
  }
  void operator()(const MemsetNodeParams& work) { add(work.destination, work.count * work.element_bytes, true); }
  void operator()(const StagedCopy& work) { add(work.destination, work.bytes.size(), true); }
  void operator()(const MemoryFreeNodeParams& work) {
    const PointerInfo info = pointer_info(runtime, work.address);
    add(info.base, info.bytes, true);
  }
  void operator()(const GraphAllocation& work) { add(work.memory->address(), work.memory->bytes(), true); }
  void operator()(const GraphFree& work) { add(work.memory->address(), work.memory->bytes(), true); }
  template <class Other>
  void operator()(const Other&) {}
};

}  // namespace

std::vector<Access> accesses_of(HostRuntime& runtime, const Work& work, bool in_graph) {
  const auto* const kernel = std::get_if<KernelWork>(&work);
  AccessList list{runtime, in_graph, kind_of(work) + (kernel != nullptr ? kernel->kernel().name : std::string())};
  std::visit(list, work);
  return std::move(list.accesses);
}

}  // namespace reprise::backend::host
