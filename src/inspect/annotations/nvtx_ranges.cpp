// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/nvtx_ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace reprise::inspect {
namespace {

// Null if there is no tool. Never destroyed: a graph may be replayed after static destructors have begun.
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("reprise");
  return made;
}

}  // namespace

bool ranges_are_taken() noexcept {
  return domain() != nullptr;
}

void push_range(const std::string& text) noexcept {
  nvtxEventAttributes_t attributes = {};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop_range() noexcept {
  nvtxDomainRangePop(domain());
}

}  // namespace reprise::inspect
