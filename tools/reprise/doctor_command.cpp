// SPDX-License-Identifier: Apache-2.0
#include "doctor_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backend/own_kernels.h"
#include "cuda_installation.h"
#include "reprise/version.h"
#include "text/format.h"

namespace reprise::tools {
namespace {

namespace fs = std::filesystem;

// What the build has.
#ifdef REPRISE_HAS_OWN_PTX
constexpr bool has_own_ptx = true;
#else
constexpr bool has_own_ptx = false;
#endif
constexpr int nvcc_version = REPRISE_NVCC_VERSION;
#ifdef REPRISE_DOCTOR_TORCH
constexpr const char* torch_folder = REPRISE_DOCTOR_TORCH;
#else
constexpr const char* torch_folder = "";
#endif

/// Something that is missing.
struct Missing {
  std::string what;
  std::string why;
  std::string disables;
};

enum class Result { usable_gpu = 0, host_only = 1, broken = 2 };

struct Findings {
  CudaInstallation cuda;
  std::string kernels;    // for what the own kernels were compiled
  std::string condition;  // the same of the one that sets conditions
  std::string torch;      // its version
  std::vector<Missing> missing = {};
  Result result = Result::host_only;
};

/// All variables of its own that the library reads.
constexpr std::string_view variables[] = {
    "REPRISE_DEVICE",       "REPRISE_EXPLAIN",        "REPRISE_EXPLAIN_ALL",
    "REPRISE_HOST_DEVICES", "REPRISE_HOST_MEMORY",    "REPRISE_HOST_PROTECT",
    "REPRISE_HOST_RACES",   "REPRISE_HOST_SCHEDULER", "REPRISE_MEMORY_STACKS",
};

/// The variables REPRISE_* as they are set, with those that the library does not read. Empty ones count as not set.
std::vector<std::string> find_settings() {
  std::vector<std::string> settings;
  for (const char* const* each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each, name = text.substr(0, text.find('='));
    if (!name.starts_with("REPRISE_") || text.ends_with('=')) continue;
    const bool known = std::ranges::find(variables, name) != std::end(variables);
    settings.push_back(std::string(text) + (known ? "" : ": unknown: programs do not read it"));
  }
  std::ranges::sort(settings);
  return settings;
}

/// "13.0" of 13000.
std::string version_of(int version) {
  return text::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// "9.0" of 90.
std::string capability_of(int capability) {
  return text::format("{}.{}", capability / 10, capability % 10);
}

/// The version of the torch that the component libtorch was built with; empty if that is gone.
std::string find_torch() {
  std::error_code failed;
  if (*torch_folder == '\0' || !fs::exists(fs::path(torch_folder) / "lib/libtorch_cpu.so", failed)) return {};
  std::ifstream file(fs::path(torch_folder) / "version.py");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find('\''), last = line.rfind('\'');
    if (line.starts_with("__version__") && first < last) return line.substr(first + 1, last - first - 1);
  }
  return "unknown";
}

std::string own_kernels() {
  std::string text;
  if (nvcc_version > 0)
    text = text::format("machine code for sm_80, sm_90 and PTX for compute_80 by nvcc {}", version_of(nvcc_version));
  if (has_own_ptx) text += text::format("{}PTX for compute_80 by NVRTC 12.4", text.empty() ? "" : "; ");
  return text;
}

void look_for_missing_kernels(Findings& found) {
  const int driver = found.cuda.version;
  const bool nvcc_fits = nvcc_version > 0 && (driver == 0 || backend::takes_code_of(nvcc_version, driver));
  const std::string why = nvcc_version == 0 ? "nvcc was not found when reprise was built"
                                            : text::format("nvcc {} compiled them, and the driver is of CUDA {}",
                                                           version_of(nvcc_version), version_of(driver));
  if (!nvcc_fits && !has_own_ptx)
    found.missing.push_back({"own kernels", why, "batches of copies and fills, random numbers in graphs"});
  if (!nvcc_fits) found.missing.push_back({"the kernel that sets conditions", why, "control flow in graphs"});
  for (const CudaInstallation::Device& device : found.cuda.devices)
    if (device.capability != 0 && device.capability < 80)
      found.missing.push_back(
          {text::format("own kernels for {}", device.name),
           text::format("its compute capability is {}, and they need 8.0", capability_of(device.capability)),
           "batches of copies and fills, random numbers and control flow in graphs"});
}

void look_for_missing_functions(Findings& found) {
  const int driver = found.cuda.version;
  const auto lacks = [&](int since, const char* what, const char* disables) {
    if (driver < since)
      found.missing.push_back({what, text::format("the driver is older than CUDA {}", version_of(since)), disables});
  };
  lacks(12080, "conditional nodes with several bodies", "if_else and switch_ in graphs; if_ and while_ work");
  lacks(12080, "the device of a stream",
        "several devices: a foreign stream counts as one of the current device, unless StreamRef names it");
  lacks(12090, "the driver's error log",
        "the name of a call of other code that broke a capture, unless reports are full");
  lacks(13010, "ids of nodes for profilers", "profiler_id of CUDAGraph::annotations(), unless CUPTI is loaded");
}

Result judge_cuda(const CudaInstallation& cuda) {
  if (!cuda.unavailable.empty()) return cuda.broken ? Result::broken : Result::host_only;
  const bool usable =
      std::ranges::any_of(cuda.devices, [](const CudaInstallation::Device& device) { return device.failure.empty(); });
  return usable ? Result::usable_gpu : Result::broken;
}

/// What is missing on CUDA devices.
void look_for_missing_of_cuda(Findings& found) {
  for (const CudaInstallation::Device& device : found.cuda.devices)
    if (!device.failure.empty()) found.missing.push_back({device.name, device.failure, "this device"});
  if (found.cuda.unavailable.empty()) look_for_missing_functions(found);
  look_for_missing_kernels(found);
  if (!found.cuda.cupti_unavailable.empty())
    found.missing.push_back({"CUPTI", found.cuda.cupti_unavailable,
                             "full capture reports, times of nodes, `reprise explain` of programs with CUDA"});
}

Findings examine() {
  Findings found;
  found.cuda = find_cuda();
  found.kernels = own_kernels();
  found.condition = nvcc_version > 0 ? "machine code for " REPRISE_CONDITION_ARCHITECTURES : "";
  found.torch = find_torch();
  found.result = judge_cuda(found.cuda);
  if (!found.cuda.unavailable.empty())
    found.missing.push_back({"CUDA devices", found.cuda.unavailable, "GPUs: programs run on host devices"});
  if (found.cuda.built) look_for_missing_of_cuda(found);
  if (found.torch.empty())
    found.missing.push_back({"torch",
                             *torch_folder == '\0' ? "reprise was built without the component libtorch"
                                                   : text::format("there is none in {}", torch_folder),
                             "captures of tensors"});
  return found;
}

const char* result_text(const Findings& found) {
  switch (found.result) {
    case Result::usable_gpu:
      return "a GPU can be used";
    case Result::host_only:
      return "host devices alone";
    default:
      return "there is a GPU or a driver that cannot be used";
  }
}

void print_text(const Findings& found) {
  const auto line = [](const char* name, const std::string& value) {
    std::printf("%-11s%s\n", name, value.empty() ? "none" : value.c_str());
  };
  line("reprise", REPRISE_VERSION);
  line("driver", found.cuda.version != 0 ? "CUDA " + version_of(found.cuda.version) : "");
  for (std::size_t i = 0; i < found.cuda.devices.size(); ++i) {
    const CudaInstallation::Device& device = found.cuda.devices[i];
    line("device", text::format("cuda:{} {}, compute capability {}{}", i, device.name, capability_of(device.capability),
                                device.failure.empty() ? "" : ": cannot be used"));
  }
  line("CUPTI", found.cuda.cupti);
  line("kernels", found.kernels);
  line("conditions", found.condition);
  line("torch", found.torch);
  for (const std::string& one : find_settings()) line("setting", one);
  for (const Missing& one : found.missing)
    std::printf("missing    %s: %s\n           disables: %s\n", one.what.c_str(), one.why.c_str(),
                one.disables.c_str());
  line("result", result_text(found));
}

}  // namespace

int doctor() {
  const Findings found = examine();
  print_text(found);
  return static_cast<int>(found.result);
}

}  // namespace reprise::tools
