// SPDX-License-Identifier: Apache-2.0
#include "backend/condition_record.h"

#include "backend/host_conditions.h"
#include "backend/own_records.h"
#include "kernels/condition_kernel.h"

namespace reprise::backend {
namespace {

struct SetCondition {
  void operator()(Thread, ConditionalHandle handle, const std::uint32_t* flag, LoopState* loop, std::uint32_t limit,
                  std::uint32_t begins) const {
    set_host_condition(handle, next_condition(flag, loop, limit, begins));
  }
  static std::vector<MemoryAccess> accesses(ConditionalHandle, const std::uint32_t* flag, LoopState* loop,
                                            std::uint32_t, std::uint32_t) {
    std::vector<MemoryAccess> declared{reads(flag, 1)};
    if (loop != nullptr) declared.insert(declared.end(), {reads(loop, 1), writes(loop, 1)});
    return declared;
  }
};

}  // namespace

const KernelRecord& condition_record() {
  return make_own_record<SetCondition>("reprise_set_condition");
}

}  // namespace reprise::backend
