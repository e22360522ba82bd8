# SPDX-License-Identifier: Apache-2.0
# The components for libtorch: the targets reprise::libtorch and, above it, reprise::libtorch_distributed and
# reprise::libtorch_optim. Built where torch is found.

include(Torch)

function(reprise_add_libtorch missing)
  reprise_add_torch(not_found GLOBAL)
  set(${missing} "${not_found}" PARENT_SCOPE)
  if(not_found)
    return()
  endif()
  set(REPRISE_FOUND_TORCH_VERSION "${REPRISE_FOUND_TORCH_VERSION}" PARENT_SCOPE)
  # They define macros before they include headers of torch: NDEBUG, one of fmt, and one of c10d.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/libtorch/operators/operator_inputs.cpp"
    "${PROJECT_SOURCE_DIR}/src/libtorch/graphed/changed_tensors.cpp"
    "${PROJECT_SOURCE_DIR}/src/libtorch/distributed/cuda/nccl_group.cpp"
    "${PROJECT_SOURCE_DIR}/src/text/format.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/libtorch/*.cpp")
  # Sources for CUDA tensors, or their replacement.
  if(REPRISE_TORCH_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "/no_(cuda_tensors|nccl_group)\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/libtorch/(distributed/)?cuda/")
  endif()
  foreach(part IN ITEMS distributed optim)
    set(${part}_sources "${sources}")
    list(FILTER ${part}_sources INCLUDE REGEX "/libtorch/${part}/")
    list(FILTER sources EXCLUDE REGEX "/libtorch/${part}/")
  endforeach()
  # Headers of torch before those of fmt.
  _reprise_add_libtorch_component(libtorch "reprise::reprise;reprise::torch" ${sources})
  foreach(part IN ITEMS distributed optim)
    _reprise_add_libtorch_component(libtorch_${part} reprise::libtorch ${${part}_sources})
  endforeach()
endfunction()

function(_reprise_add_libtorch_component name core)
  reprise_add_component(${name} "${core}" ${ARGN})
  if(REPRISE_SANITIZE)
    # Compiled for its warnings alone: tests of it have no sanitizers.
    target_compile_options(reprise_${name} PRIVATE -O0 -g0 -fno-sanitize=all)
  endif()
  reprise_group_sources(reprise_${name} SIZE 16)
  reprise_precompile(libtorch reprise_${name} <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h>
    <ATen/TensorOperators.h> <c10/core/DeviceGuard.h> <c10/core/InferenceMode.h> <torch/csrc/autograd/function.h>
    <torch/csrc/autograd/variable.h> <torch/library.h> <reprise/reprise.h>)
endfunction()
