// SPDX-License-Identifier: Apache-2.0
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

// A tool that NVTX opens where NVTX_INJECTION64_PATH names it: it writes down the ranges of the domain `reprise`, as
// "+text" and "-", with the number of the thread where that is not the first one.

namespace {

std::mutex mutex;
std::string ranges;
std::unordered_map<long, int> threads;
int of_domain = 0;  // its address is the handle
int of_others = 0;

void write(const std::string& what) {
  const std::lock_guard lock(mutex);
  const int thread = threads.emplace(syscall(SYS_gettid), static_cast<int>(threads.size())).first->second;
  if (!ranges.empty()) ranges += ' ';
  if (thread != 0) ranges += std::to_string(thread) + ":";
  ranges += what;
}

nvtxDomainHandle_t create(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(std::strcmp(name, "reprise") == 0 ? &of_domain : &of_others);
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const bool whole = domain == reinterpret_cast<nvtxDomainHandle_t>(&of_domain) &&
                     attributes->version == NVTX_VERSION && attributes->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE &&
                     attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  write(whole ? "+" + std::string(attributes->message.ascii) : "+?");
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  write(domain == reinterpret_cast<nvtxDomainHandle_t>(&of_domain) ? "-" : "-?");
  return 0;
}

}  // namespace

extern "C" {

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const tables = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (tables == nullptr || tables->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

/// What was written down so far.
const char* fake_nvtx_ranges() {
  const std::lock_guard lock(mutex);
  return ranges.c_str();
}

}  // extern "C"
