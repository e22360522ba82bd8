// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/cupti_api.h"

#include <dlfcn.h>

#include <fstream>
#include <mutex>
#include <string_view>
#include <vector>

#include "backend/reported_version.h"
#include "support/environment.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend::cuda {
namespace {

// The version of CUDA that the driver is of, which each process that uses CUPTI has loaded; 0 if that is not known.
int version_of_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  const int version = reported_version(library);
  dlclose(library);
  return version;
}

// The names of CUPTI that fit, the best first.
std::vector<const char*> file_names() {
  const int driver = version_of_driver();
  if (driver != 0 && driver < 13000) return {"libcupti.so.12"};
  return {"libcupti.so.13", "libcupti.so.12"};
}

// The file of a CUPTI that fits and is loaded in the process.
std::string loaded_file() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(line.rfind('/') + 1);
    for (const std::string_view file_name : file_names())
      if (name == file_name || name.starts_with(std::string(file_name) + ".")) return line.substr(path);
  }
  return {};
}

// A handle of that; null if there is none. The loader knows it by its own name or by that of its file.
void* loaded_library() {
  for (const char* const file_name : file_names())
    if (void* const library = dlopen(file_name, RTLD_NOW | RTLD_NOLOAD)) return library;
  const std::string file = loaded_file();
  return file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
}

std::vector<std::string> files_of_toolkits(const char* file_name) {
  std::vector<std::string> folders;
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string_view folder = support::trusted_environment(variable); !folder.empty())
      folders.emplace_back(folder);
  folders.emplace_back("/usr/local/cuda");
  std::vector<std::string> files;
  for (const std::string& folder : folders)
    for (const char* const below : {"lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib", "lib"})
      files.push_back(text::format("{}/{}/{}", folder, below, file_name));
  return files;
}

void* open_library(std::string* why) {
  if (void* const library = loaded_library()) return library;
  for (const char* const file_name : file_names()) {
    if (void* const library = dlopen(file_name, RTLD_NOW)) return library;
    const char* const reason = dlerror();
    if (why->empty()) *why = reason != nullptr ? reason : file_name;
    for (const std::string& file : files_of_toolkits(file_name))
      if (void* const library = dlopen(file.c_str(), RTLD_NOW)) return library;
  }
  return nullptr;
}

// Looks up functions of a library, and keeps the name of the first that is missing.
struct Lookup {
  void* library;
  const char* missing = nullptr;

  template <class Function>
  void operator()(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  }
};

// The first function that is missing; null if none is.
const char* find_functions(void* library, CuptiApi& api) {
#if CUPTI_API_VERSION >= 130000
  Lookup{library}("cuptiSubscribe_v2", api.subscribe_v2);  // may be missing
#endif
  Lookup find{library};
  find("cuptiSubscribe", api.subscribe);
  find("cuptiUnsubscribe", api.unsubscribe);
  find("cuptiEnableDomain", api.enable_domain);
  find("cuptiGetResultString", api.result_string);
  return find.missing;
}

// As above.
const char* find_activities(void* library, CuptiApi& api) {
  Lookup find{library};
  find("cuptiActivityRegisterCallbacks", api.register_buffers);
  find("cuptiActivityEnable", api.enable_activity);
  find("cuptiActivityDisable", api.disable_activity);
  find("cuptiActivityFlushAll", api.flush_activities);
  find("cuptiActivityGetNextRecord", api.next_record);
  find("cuptiActivityGetNumDroppedRecords", api.dropped_records);
  find("cuptiGetGraphNodeId", api.graph_node_id);
  find("cuptiGetGraphExecId", api.graph_exec_id);
  return find.missing;
}

OpenedCupti open_cupti() {
  OpenedCupti cupti;
  std::string why;
  void* const library = open_library(&why);
  if (library == nullptr) {
    cupti.unavailable = text::format(
        "CUPTI could not be opened: {}; it is a part of CUDA's toolkit, whose folder "
        "CUDA_HOME can name",
        why);
    return cupti;
  }
  const char* const missing = find_functions(library, cupti.api);
  Dl_info info{};
  if (cupti.api.subscribe != nullptr && dladdr(reinterpret_cast<void*>(cupti.api.subscribe), &info) != 0 &&
      info.dli_fname != nullptr)
    cupti.file = info.dli_fname;
  if (missing != nullptr) {
    cupti.unavailable = text::format("{} has no {}", cupti.file.empty() ? "CUPTI" : cupti.file, missing);
    return cupti;
  }
  cupti.api.lacks_activities = find_activities(library, cupti.api);
  return cupti;
}

}  // namespace

std::string failure_text(const OpenedCupti& cupti, const char* call, CUptiResult result) {
  const char* text = nullptr;
  if (cupti.api.result_string(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown";
  return text::format("{} of {} returned {} ({})", call, cupti.file, static_cast<int>(result), text);
}

OpenedCupti loaded_cupti() {
  void* const library = loaded_library();
  if (library == nullptr) {
    OpenedCupti none;
    none.unavailable =
        text::format("CUPTI ({}) is not loaded in the process: load the profiler first", file_names().front());
    return none;
  }
  dlclose(library);
  return opened_cupti();
}

OpenedCupti opened_cupti() {
  static std::mutex mutex;
  static support::Immortal<OpenedCupti> opened(OpenedCupti{{}, {}, "not tried"});
  const std::scoped_lock lock(mutex);
  if (!opened->unavailable.empty()) *opened = open_cupti();
  return *opened;
}

}  // namespace reprise::backend::cuda
