// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Compiles a source for CUDA to PTX by NVRTC, when the library is built:
//   reprise_compile_ptx LIBNVRTC SOURCE PTX OPTION...
// The library has to be of CUDA 12.4, the oldest version that is supported: every later driver loads its PTX. NVRTC is
// opened, so that its headers are not needed. A zero ends the output, as the driver wants it.

namespace {

class Nvrtc {
 public:
  explicit Nvrtc(const char* file) : library_(dlopen(file, RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    int major = 0, minor = 0;
    if (find<int(int*, int*)>("nvrtcVersion")(&major, &minor) != 0 || major != 12 || minor != 4)
      throw std::runtime_error("expected NVRTC of CUDA 12.4, as scripts/setup-nvrtc fetches it; found " +
                               std::to_string(major) + "." + std::to_string(minor) + " in " + file);
  }

  /// \throws std::runtime_error with the compiler's messages.
  std::string compile(const std::string& name, const std::string& source,
                      const std::vector<const char*>& options) const {
    void* program = nullptr;
    if (find<int(void**, const char*, const char*, int, const char* const*, const char* const*)>("nvrtcCreateProgram")(
            &program, source.c_str(), name.c_str(), 0, nullptr, nullptr) != 0)
      throw std::runtime_error("nvrtcCreateProgram failed");
    const auto destroy = [this](void* made) { (void)find<int(void**)>("nvrtcDestroyProgram")(&made); };
    const std::unique_ptr<void, decltype(destroy)> owner(program, destroy);
    const int result = find<int(void*, int, const char* const*)>("nvrtcCompileProgram")(
        program, static_cast<int>(options.size()), options.data());
    if (result != 0) throw std::runtime_error(text_of(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"));
    return text_of(program, "nvrtcGetPTXSize", "nvrtcGetPTX");
  }

 private:
  template <class Function>
  Function* find(const char* name) const {
    auto* const found = reinterpret_cast<Function*>(dlsym(library_, name));
    if (found == nullptr) throw std::runtime_error(dlerror());
    return found;
  }
  /// With the zero that ends it.
  std::string text_of(void* program, const char* size_call, const char* text_call) const {
    std::size_t size = 0;
    (void)find<int(void*, std::size_t*)>(size_call)(program, &size);
    std::string text(size, '\0');
    if (find<int(void*, char*)>(text_call)(program, text.data()) != 0)
      throw std::runtime_error(std::string(text_call) + " failed");
    return text;
  }

  void* const library_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) {
    std::fputs("usage: reprise_compile_ptx LIBNVRTC SOURCE PTX OPTION...\n", stderr);
    return 2;
  }
  try {
    std::ostringstream source;
    source << std::ifstream(arguments[2]).rdbuf();
    if (!source) throw std::runtime_error(std::string(arguments[2]) + " cannot be read");
    const std::vector<const char*> options(arguments + 4, arguments + count);
    const std::string ptx = Nvrtc(arguments[1]).compile(arguments[2], source.str(), options);
    std::ofstream out(arguments[3], std::ios::binary);
    out << ptx;
    out.close();
    if (!out) throw std::runtime_error(std::string(arguments[3]) + " cannot be written");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise_compile_ptx: error: %s\n", error.what());
    return 1;
  }
}
