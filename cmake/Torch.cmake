# SPDX-License-Identifier: Apache-2.0
# The libtorch that the component reprise::libtorch is built against: the wheel of torch that scripts/setup-libtorch
# fetches, or the folder `torch` of another one (REPRISE_TORCH). Imported by hand: TorchConfig.cmake requires a GPU, or a
# list of architectures and nvcc, and CUDA's toolkit, none of which this component needs. The same file serves the
# project itself and the installed package.
#
# REPRISE_CUDA_CRT is false if CUDA tensors are impossible: parts of libtorch or of CUDA's headers are missing.
#
#   reprise_add_torch(<missing> [GLOBAL])    makes the target reprise::torch if it is found; <missing> is empty then, else
#                                            it says what was not. Another version of torch is an error.

include("${CMAKE_CURRENT_LIST_DIR}/CacheFolder.cmake")

set(REPRISE_TORCH_VERSION 2.11.0)

function(reprise_add_torch missing)
  set(${missing} "" PARENT_SCOPE)
  if(TARGET reprise::torch)
    return()
  endif()
  reprise_cache_folder(home torch-${REPRISE_TORCH_VERSION} REPRISE_TORCH_DIR)
  file(GLOB candidates "${home}/lib/python3*/site-packages/torch")
  find_path(REPRISE_TORCH include/torch/library.h HINTS ${candidates} NO_DEFAULT_PATH
    DOC "The folder `torch` of the wheel of torch ${REPRISE_TORCH_VERSION}")
  mark_as_advanced(REPRISE_TORCH)
  if(NOT REPRISE_TORCH)
    set(${missing} "torch ${REPRISE_TORCH_VERSION} is not in ${home}; scripts/setup-libtorch puts it there, or REPRISE_TORCH names its folder" PARENT_SCOPE)
    return()
  endif()
  if(NOT EXISTS "${REPRISE_TORCH}/include/torch/library.h")
    message(FATAL_ERROR "REPRISE_TORCH is \"${REPRISE_TORCH}\", where there is no torch: expected the folder `torch` of the "
      "wheel of torch ${REPRISE_TORCH_VERSION}, with include/torch/library.h in it")
  endif()
  set(header "${REPRISE_TORCH}/include/torch/headeronly/version.h")
  set(version "an older one")
  if(EXISTS "${header}")
    file(STRINGS "${header}" version REGEX "[0-9]+\\.[0-9]+\\.[0-9]+")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${version}")
  endif()
  if(NOT version STREQUAL REPRISE_TORCH_VERSION)
    message(FATAL_ERROR "reprise::libtorch is written for torch ${REPRISE_TORCH_VERSION}; found ${version} in "
      "${REPRISE_TORCH}. Run scripts/setup-libtorch, let REPRISE_TORCH name that version, or set REPRISE_LIBTORCH=OFF")
  endif()

  add_library(reprise::torch INTERFACE IMPORTED ${ARGN})
  target_include_directories(reprise::torch SYSTEM INTERFACE "${REPRISE_TORCH}/include"
    "${REPRISE_TORCH}/include/torch/csrc/api/include")
  set(libraries "${REPRISE_TORCH}/lib/libtorch_cpu.so" "${REPRISE_TORCH}/lib/libc10.so" "${REPRISE_TORCH}/lib/libgomp.so.1")
  # CUDA's part also loads without a driver: one program serves both kinds of machine.
  if(EXISTS "${REPRISE_TORCH}/lib/libtorch_cuda.so")
    list(APPEND libraries "${REPRISE_TORCH}/lib/libtorch_cuda.so" "${REPRISE_TORCH}/lib/libc10_cuda.so")
    # Of CUDA's headers the wheel lacks a folder, which is a package of its own; toolkits have it, too.
    # NCCL's are next to them, in a package that wheels of torch with CUDA require.
    file(GLOB cuda_headers "${REPRISE_TORCH}/../nvidia/cu*/include" "${REPRISE_TORCH}/../nvidia/nccl/include")
    find_path(REPRISE_CUDA_CRT crt/host_defines.h
      HINTS ${cuda_headers} "${CUDAToolkit_ROOT}" ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH
      PATHS /usr/local/cuda
      PATH_SUFFIXES include
      DOC "The folder of CUDA's crt/host_defines.h")
    mark_as_advanced(REPRISE_CUDA_CRT)
    target_include_directories(reprise::torch SYSTEM INTERFACE ${cuda_headers})
    if(REPRISE_CUDA_CRT)
      target_include_directories(reprise::torch SYSTEM INTERFACE "${REPRISE_CUDA_CRT}")
    else()
      message(STATUS "reprise::libtorch: without CUDA tensors, because CUDA's header crt/host_defines.h was not found; "
        "scripts/setup-libtorch gets it, and so does the pip package nvidia-cuda-crt")
    endif()
    # libtorch's headers have functions that call CUDA's runtime.
    file(GLOB cuda_runtime "${REPRISE_TORCH}/../nvidia/cu*/lib/libcudart.so.*")
  else()
    message(STATUS "reprise::libtorch: without CUDA tensors, because ${REPRISE_TORCH} has no libtorch_cuda.so")
  endif()
  # libtorch registers its operators when it is loaded: the linker must not drop it although no symbol is used.
  target_link_libraries(reprise::torch INTERFACE "-Wl,--no-as-needed" ${libraries} "-Wl,--as-needed" ${cuda_runtime})
endfunction()
