// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: modules, libraries and functions.

namespace reprise::backend::test {

namespace {

void add_module_objects(std::vector<RecordedCall>& calls) {
  add(calls, "cuModuleLoadData", [](State& x) {
    CUmodule made = nullptr;
    return then(CU(cuModuleLoadData)(&made, module_text), x, [&] { (void)CU(cuModuleUnload)(made); });
  });
  add(
      calls, "cuModuleUnload",
      [](State& x) { return then(CU(cuModuleUnload)(things(x).module), x, [&] { things(x).module = nullptr; }); },
      with_module);
  add(
      calls, "cuModuleGetFunction",
      [](State& x) {
        CUfunction found = nullptr;
        return CU(cuModuleGetFunction)(&found, things(x).module, "nothing");
      },
      with_module);
  add(
      calls, "cuModuleGetGlobal",
      [](State& x) {
        CUdeviceptr found = 0;
        std::size_t bytes = 0;
        return CU(cuModuleGetGlobal)(&found, &bytes, things(x).module, "word");
      },
      with_module);
  add(
      calls, "cuModuleGetFunctionCount",
      [](State& x) {
        unsigned count = 0;
        return CU(cuModuleGetFunctionCount)(&count, things(x).module);
      },
      with_module);
  add(calls, "cuModuleGetLoadingMode", [](State&) {
    CUmoduleLoadingMode mode{};
    return CU(cuModuleGetLoadingMode)(&mode);
  });
}

void add_libraries(std::vector<RecordedCall>& calls) {
  add(calls, "cuLibraryLoadData", [](State& x) {
    CUlibrary made = nullptr;
    return then(CU(cuLibraryLoadData)(&made, module_text, nullptr, nullptr, 0, nullptr, nullptr, 0), x,
                [&] { (void)CU(cuLibraryUnload)(made); });
  });
  add(
      calls, "cuLibraryUnload",
      [](State& x) { return then(CU(cuLibraryUnload)(things(x).library), x, [&] { things(x).library = nullptr; }); },
      with_library);
  add(
      calls, "cuLibraryGetKernel",
      [](State& x) {
        CUkernel found = nullptr;
        return CU(cuLibraryGetKernel)(&found, things(x).library, "nothing");
      },
      with_library);
  // Loads the library on the device.
  add(
      calls, "cuLibraryGetModule",
      [](State& x) {
        CUmodule found = nullptr;
        return CU(cuLibraryGetModule)(&found, things(x).library);
      },
      with_library);
  add(
      calls, "cuLibraryGetGlobal",
      [](State& x) {
        CUdeviceptr found = 0;
        std::size_t bytes = 0;
        return CU(cuLibraryGetGlobal)(&found, &bytes, things(x).library, "word");
      },
      with_library);
  add(calls, "cuLinkCreate", [](State& x) {
    CUlinkState made = nullptr;
    return then(CU(cuLinkCreate)(0, nullptr, nullptr, &made), x, [&] { (void)CU(cuLinkDestroy)(made); });
  });
}

void add_functions(std::vector<RecordedCall>& calls) {
  const auto with = [&](const char* name, auto make) { add(calls, name, make, with_function); };
  with("cuFuncGetAttribute", [](State& x) {
    int value = 0;
    return CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, things(x).function);
  });
  with("cuFuncSetAttribute", [](State& x) {
    return CU(cuFuncSetAttribute)(things(x).function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 16);
  });
  with("cuFuncSetCacheConfig",
       [](State& x) { return CU(cuFuncSetCacheConfig)(things(x).function, CU_FUNC_CACHE_PREFER_NONE); });
  with("cuFuncGetModule", [](State& x) {
    CUmodule found = nullptr;
    return CU(cuFuncGetModule)(&found, things(x).function);
  });
  with("cuFuncGetName", [](State& x) {
    const char* name = nullptr;
    return CU(cuFuncGetName)(&name, things(x).function);
  });
  with("cuFuncIsLoaded", [](State& x) {
    CUfunctionLoadingState state{};
    return CU(cuFuncIsLoaded)(&state, things(x).function);
  });
  with("cuFuncLoad", [](State& x) { return CU(cuFuncLoad)(things(x).function); });
  with("cuKernelGetFunction", [](State& x) {
    CUfunction found = nullptr;
    return CU(cuKernelGetFunction)(&found, things(x).kernel);
  });
  with("cuKernelGetAttribute", [](State& x) {
    int value = 0;
    return CU(cuKernelGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, things(x).kernel, things(x).device);
  });
  with("cuKernelSetAttribute", [](State& x) {
    return CU(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 16, things(x).kernel,
                                    things(x).device);
  });
  with("cuOccupancyMaxActiveBlocksPerMultiprocessor", [](State& x) {
    int blocks = 0;
    return CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, things(x).function, 128, 0);
  });
  with("cuOccupancyMaxPotentialBlockSize", [](State& x) {
    int grid = 0, block = 0;
    return CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, things(x).function, nullptr, 0, 0);
  });
  with("cuOccupancyAvailableDynamicSMemPerBlock", [](State& x) {
    std::size_t bytes = 0;
    return CU(cuOccupancyAvailableDynamicSMemPerBlock)(&bytes, things(x).function, 1, 128);
  });
}

}  // namespace

void add_modules(std::vector<RecordedCall>& calls) {
  add_module_objects(calls);
  add_libraries(calls);
  add_functions(calls);
}

}  // namespace reprise::backend::test

#endif
