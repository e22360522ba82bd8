# SPDX-License-Identifier: Apache-2.0
# The libtorch that the component reprise::libtorch is built against: the wheel of torch that scripts/setup-libtorch
# fetches, or the folder `torch` of another one (REPRISE_TORCH), also of another version. Imported by hand:
# TorchConfig.cmake requires a GPU, or a list of architectures and nvcc, and CUDA's toolkit, none of which this component
# needs. The same file serves the project itself and the installed package.
#
# An installed component is used with the version that it was built against: reprise-config.cmake sets
# reprise_built_torch_version.
#
# REPRISE_TORCH_HAS_CUDA is false if CUDA tensors are impossible: parts of libtorch or of CUDA's headers are missing.
#
#   reprise_add_torch(<missing> [GLOBAL])    makes the target reprise::torch if it is found; <missing> is empty then, else
#                                            it says what was not. A version of torch that is not supported is an error.

include("${CMAKE_CURRENT_LIST_DIR}/CacheFolder.cmake")

# What is looked for unless REPRISE_TORCH is set. Versions from the oldest to the newest should work: what differs lies
# in src/libtorch/versions/ and src/libtorch/cuda/versions/. docs/libtorch-cuda.md says what was tried with which.
set(REPRISE_TORCH_VERSION 2.11.0)
set(REPRISE_TESTED_TORCH_VERSIONS 2.8.0 2.11.0 2.15.0)
set(REPRISE_OLDEST_TORCH 2.8)
set(REPRISE_NEWEST_TORCH 2.15)

# The version of the folder `torch` of a wheel; "an older one" if its headers do not say.
function(reprise_get_torch_version result folder)
  set(version "an older one")
  foreach(header IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS "${folder}/include/${header}")
      file(STRINGS "${folder}/include/${header}" lines REGEX "[0-9]+\\.[0-9]+\\.[0-9]+")
      if("${lines}" MATCHES "[0-9]+\\.[0-9]+\\.[0-9]+")
        set(version "${CMAKE_MATCH_0}")
        break()
      endif()
    endif()
  endforeach()
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

function(reprise_check_torch_version version)
  if(reprise_built_torch_version AND NOT version STREQUAL reprise_built_torch_version)
    message(FATAL_ERROR "This reprise::libtorch was built against torch ${reprise_built_torch_version}; found ${version} "
      "in ${REPRISE_TORCH}. Run scripts/setup-libtorch ${reprise_built_torch_version}, let REPRISE_TORCH name that "
      "version, or build reprise against ${version}")
  endif()
  list(JOIN REPRISE_TESTED_TORCH_VERSIONS ", " tested)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${version}")
  if(NOT minor OR minor VERSION_LESS REPRISE_OLDEST_TORCH OR minor VERSION_GREATER REPRISE_NEWEST_TORCH)
    message(FATAL_ERROR "reprise::libtorch is written for torch ${REPRISE_OLDEST_TORCH} to ${REPRISE_NEWEST_TORCH}, and "
      "tested with ${tested}; found ${version} in ${REPRISE_TORCH}. Run scripts/setup-libtorch, let REPRISE_TORCH name "
      "one of these versions, or set REPRISE_LIBTORCH=OFF")
  endif()
  list(FIND REPRISE_TESTED_TORCH_VERSIONS "${version}" place)
  if(place EQUAL -1)
    message(STATUS "reprise::libtorch: torch ${version} should work, but is not tested; tested are ${tested}")
  endif()
endfunction()

function(reprise_add_torch missing)
  set(${missing} "" PARENT_SCOPE)
  if(TARGET reprise::torch)
    return()
  endif()
  set(wanted ${REPRISE_TORCH_VERSION})
  if(reprise_built_torch_version)
    set(wanted ${reprise_built_torch_version})
  endif()
  reprise_cache_folder(home torch-${wanted} REPRISE_TORCH_DIR)
  file(GLOB candidates "${home}/lib/python3*/site-packages/torch")
  find_path(REPRISE_TORCH include/torch/library.h HINTS ${candidates} NO_DEFAULT_PATH
    DOC "The folder `torch` of the wheel of torch ${wanted}")
  mark_as_advanced(REPRISE_TORCH)
  if(NOT REPRISE_TORCH)
    set(${missing} "torch ${wanted} is not in ${home}; scripts/setup-libtorch puts it there, or REPRISE_TORCH names its folder" PARENT_SCOPE)
    return()
  endif()
  if(NOT EXISTS "${REPRISE_TORCH}/include/torch/library.h")
    message(FATAL_ERROR "REPRISE_TORCH is \"${REPRISE_TORCH}\", where there is no torch: expected the folder `torch` of the "
      "wheel of torch ${wanted}, with include/torch/library.h in it")
  endif()
  reprise_get_torch_version(version "${REPRISE_TORCH}")
  reprise_check_torch_version("${version}")
  set(REPRISE_FOUND_TORCH_VERSION "${version}" PARENT_SCOPE)

  add_library(reprise::torch INTERFACE IMPORTED ${ARGN})
  target_include_directories(reprise::torch SYSTEM INTERFACE "${REPRISE_TORCH}/include"
    "${REPRISE_TORCH}/include/torch/csrc/api/include")
  set(libraries "${REPRISE_TORCH}/lib/libtorch_cpu.so" "${REPRISE_TORCH}/lib/libc10.so" "${REPRISE_TORCH}/lib/libgomp.so.1")
  # CUDA's part also loads without a driver: one program serves both kinds of machine.
  if(EXISTS "${REPRISE_TORCH}/lib/libtorch_cuda.so")
    set(cuda_packages_headers crt/host_defines.h nv/target)
    set(cuda_packages "nvidia-cuda-crt, or nvidia-cuda-nvcc-cu12" "nvidia-cuda-cccl, or nvidia-cuda-cccl-cu12")
    list(APPEND libraries "${REPRISE_TORCH}/lib/libtorch_cuda.so" "${REPRISE_TORCH}/lib/libc10_cuda.so")
    # Of CUDA's headers the wheel lacks two folders, which are packages of their own; toolkits have them, too.
    # NCCL's are next to them, in a package that wheels of torch with CUDA require. Wheels for CUDA 12 have a folder for
    # each part of CUDA, those for CUDA 13 one for all.
    file(GLOB cuda_headers "${REPRISE_TORCH}/../nvidia/cu*/include" "${REPRISE_TORCH}/../nvidia/nccl/include")
    target_include_directories(reprise::torch SYSTEM INTERFACE ${cuda_headers})
    set(REPRISE_TORCH_HAS_CUDA TRUE CACHE INTERNAL "The component libtorch has CUDA tensors")
    foreach(header package IN ZIP_LISTS cuda_packages_headers cuda_packages)
      string(MAKE_C_IDENTIFIER "REPRISE_CUDA_${header}" folder)
      find_path(${folder} ${header}
        HINTS ${cuda_headers} "${CUDAToolkit_ROOT}" ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH
        PATHS /usr/local/cuda
        PATH_SUFFIXES include include/cccl cccl
        DOC "The folder of CUDA's ${header}")
      mark_as_advanced(${folder})
      if(${folder})
        target_include_directories(reprise::torch SYSTEM INTERFACE "${${folder}}")
      else()
        set(REPRISE_TORCH_HAS_CUDA FALSE CACHE INTERNAL "")
        message(STATUS "reprise::libtorch: without CUDA tensors, because CUDA's header ${header} was not found; "
          "scripts/setup-libtorch gets it, and so does the pip package ${package}")
      endif()
    endforeach()
    # libtorch's headers have functions that call CUDA's runtime.
    file(GLOB cuda_runtime "${REPRISE_TORCH}/../nvidia/cu*/lib/libcudart.so.*")
  else()
    set(REPRISE_TORCH_HAS_CUDA FALSE CACHE INTERNAL "")
    message(STATUS "reprise::libtorch: without CUDA tensors, because ${REPRISE_TORCH} has no libtorch_cuda.so")
  endif()
  # libtorch registers its operators when it is loaded: the linker must not drop it although no symbol is used.
  target_link_libraries(reprise::torch INTERFACE "-Wl,--no-as-needed" ${libraries} "-Wl,--as-needed" ${cuda_runtime})
endfunction()
