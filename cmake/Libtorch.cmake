# SPDX-License-Identifier: Apache-2.0
# The component libtorch: the target reprise::libtorch, built where torch is found.

include(Torch)

function(reprise_add_libtorch missing)
  reprise_add_torch(not_found GLOBAL)
  set(${missing} "${not_found}" PARENT_SCOPE)
  if(not_found)
    return()
  endif()
  set(REPRISE_FOUND_TORCH_VERSION "${REPRISE_FOUND_TORCH_VERSION}" PARENT_SCOPE)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/libtorch/*.cpp")
  # Sources for CUDA tensors, or their replacement.
  if(REPRISE_TORCH_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "/no_cuda_tensors\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/libtorch/cuda/")
  endif()
  # torch has headers of fmt, of another version: their implementation is compiled here once more.
  add_library(reprise_libtorch ${sources} "${PROJECT_SOURCE_DIR}/src/text/format.cpp")
  add_library(reprise::libtorch ALIAS reprise_libtorch)
  set_target_properties(reprise_libtorch PROPERTIES
    EXPORT_NAME libtorch
    POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_include_directories(reprise_libtorch PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(reprise_libtorch PUBLIC reprise::reprise reprise::torch
    PRIVATE "$<BUILD_INTERFACE:reprise_fmt_headers>")
  reprise_hide_symbols(reprise_libtorch)
  reprise_set_warnings(reprise_libtorch)
  if(REPRISE_SANITIZE)
    # Compiled for its warnings alone: tests of it have no sanitizers.
    target_compile_options(reprise_libtorch PRIVATE -O0 -g0 -fno-sanitize=all)
  endif()
  # They define macros before they include headers of torch: NDEBUG, and one of fmt.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/libtorch/operators/operator_inputs.cpp"
    "${PROJECT_SOURCE_DIR}/src/libtorch/graphed/changed_tensors.cpp"
    "${PROJECT_SOURCE_DIR}/src/text/format.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  reprise_group_sources(reprise_libtorch SIZE 16)
  reprise_precompile(libtorch reprise_libtorch <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h>
    <ATen/TensorOperators.h> <c10/core/DeviceGuard.h> <c10/core/InferenceMode.h> <torch/csrc/autograd/function.h>
    <torch/csrc/autograd/variable.h> <torch/library.h> <reprise/reprise.h>)
endfunction()
