// SPDX-License-Identifier: Apache-2.0
#include "backend/rules/call_stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "text/demangle.h"
#include "text/format.h"

namespace reprise::backend {
namespace {

constexpr int most_frames = 64;

struct Frame {
  std::string function;  // empty if unknown
  std::string place;     // file and offset
  bool of_cupti = false;
  bool of_shared_library = false;  // this one, which hides the names of its inner functions
  bool of_driver = false;
};

// The loader knows the program itself by argv[0].
std::string full_path(const char* file) {
  if (*file == '/') return file;
  std::array<char, 4096> path;
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 ? std::string(path.data(), static_cast<std::size_t>(size)) : std::string(file);
}

Frame frame_of(void* address) {
  // A return address follows the call, which may be the last instruction of the function.
  void* const inside = static_cast<char*>(address) - 1;
  Dl_info info{};
  if (dladdr(inside, &info) == 0 || info.dli_fname == nullptr) return {{}, text::format("{}", address)};
  const auto offset = static_cast<char*>(inside) - static_cast<char*>(info.dli_fbase);
  Frame frame{{}, text::format("{}+{:#x}", full_path(info.dli_fname), offset)};
  const std::string_view file = info.dli_fname;
  const std::string_view name = file.substr(file.rfind('/') + 1);
  frame.of_cupti = name.starts_with("libcupti.so");
  frame.of_driver = name.starts_with("libcuda.so");
  frame.of_shared_library = name.starts_with("libreprise.so");
  if (info.dli_sname != nullptr) frame.function = text::demangle(info.dli_sname);
  return frame;
}

// The lines of the Python interpreter on this thread, if there is one in the process, innermost first. What
// faulthandler uses: it needs no lock of the interpreter, and may be called from anywhere.
void add_python_lines(std::vector<std::string>& lines) {
  using ThreadState = void* (*)();
  using Dump = void (*)(int file, void* state);
  static const auto thread_state = reinterpret_cast<ThreadState>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  static const auto dump = reinterpret_cast<Dump>(dlsym(RTLD_DEFAULT, "_Py_DumpTraceback"));
  if (thread_state == nullptr || dump == nullptr) return;
  void* const state = thread_state();
  const int file = state != nullptr ? memfd_create("python_stack", MFD_CLOEXEC) : -1;
  if (file < 0) return;
  dump(file, state);
  std::string text(16384, '\0');
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  close(file);
  std::istringstream in(text.substr(0, size > 0 ? static_cast<std::size_t>(size) : 0));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("  File ")) lines.push_back(line.substr(2));
}

// True for functions of this library's backend, of launch() and of its parts: long names without information.
bool is_ours(const std::string& function) {
  constexpr std::string_view parts[] = {"reprise::backend::",      "reprise::detail::",      "reprise::kernels_host::",
                                        "reprise::kernels_nvcc::", "7reprise12kernels_host", "7reprise12kernels_nvcc"};
  return std::ranges::any_of(parts, [&](std::string_view part) { return function.find(part) != std::string::npos; });
}

// The first frame from `first` on that is not of this library. Some of its functions have no names: unnamed frames
// below one of its frames count as its own.
std::size_t above_ours(const std::vector<Frame>& frames, std::size_t first) {
  std::size_t above = first;
  for (std::size_t i = first; i < frames.size(); ++i) {
    const bool ours = is_ours(frames[i].function) || (frames[i].of_shared_library && frames[i].function.empty());
    if (ours) above = i + 1;
    if (!ours && !frames[i].function.empty()) break;
  }
  return above;
}

// The first frame above a callback of CUPTI, which the driver calls: hidden functions of this library have no names,
// and those of the driver carry no information. 0 if it is no callback.
std::size_t above_callback(const std::vector<Frame>& frames) {
  constexpr std::size_t most_of_ours = 16;
  std::size_t i = 0;
  while (i < frames.size() && i < most_of_ours && !frames[i].of_cupti) ++i;
  if (i == frames.size() || i == most_of_ours) return 0;
  while (i < frames.size() && (frames[i].of_cupti || frames[i].of_driver)) ++i;
  return i;
}

}  // namespace

std::uint64_t thread_number() noexcept {
  return static_cast<std::uint64_t>(::syscall(SYS_gettid));
}

std::vector<std::string> call_stack() noexcept {
  try {
    std::array<void*, most_frames> addresses;
    const int count = ::backtrace(addresses.data(), most_frames);
    std::vector<Frame> frames;
    for (int i = 1; i < count; ++i) frames.push_back(frame_of(addresses[static_cast<std::size_t>(i)]));
    std::vector<std::string> lines;
    add_python_lines(lines);
    for (std::size_t i = above_ours(frames, above_callback(frames)); i < frames.size(); ++i) {
      const Frame& frame = frames[i];
      lines.push_back(frame.function.empty() ? frame.place : frame.function + " at " + frame.place);
    }
    return lines;
  } catch (...) {
    return {};
  }
}

}  // namespace reprise::backend
