# SPDX-License-Identifier: Apache-2.0
# src/backend/cuda needs CUDA's headers, no more: the driver is opened at run time, and nothing of CUDA is linked.
#
#   REPRISE_CUDA                AUTO (build it if the headers are found), ON (fail if they are not), OFF
#   REPRISE_OWN_KERNELS         AUTO (compile the library's own kernels if nvcc is found), ON (fail if it is not), OFF
#   REPRISE_NVRTC               libnvrtc.so.12 of CUDA 12.4, with which own kernels are compiled for drivers of CUDA 12, too;
#                               looked for where scripts/setup-nvrtc puts it
#   REPRISE_CUDA_INCLUDE_DIR    where cuda.h lies; looked for beside CUDAToolkit_ROOT, CUDA_HOME, CUDA_PATH and nvcc, and
#                               in /usr/local/cuda
#   reprise_has_cuda            set here: whether it is built
#   reprise_has_cupti           set here: whether calls of CUDA can be watched, for which CUPTI's headers are needed

include(CacheFolder)

set(REPRISE_CUDA AUTO CACHE STRING "Build the support of CUDA devices: AUTO (if CUDA's headers are found), ON, OFF")
set_property(CACHE REPRISE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(REPRISE_OWN_KERNELS AUTO CACHE STRING "Compile the library's own kernels for CUDA: AUTO (if nvcc is found), ON, OFF")
set_property(CACHE REPRISE_OWN_KERNELS PROPERTY STRINGS AUTO ON OFF)

# Sets `result` to TRUE and REPRISE_CUDA_INCLUDE_DIR if there are headers that the backend can be built with, else
# `result` to FALSE and `why`.
function(_reprise_find_cuda_headers result why)
  find_program(REPRISE_NVCC nvcc HINTS "${CUDAToolkit_ROOT}/bin" PATHS /usr/local/cuda/bin DOC "CUDA's compiler")
  mark_as_advanced(REPRISE_NVCC)
  set(beside_nvcc "")
  if(REPRISE_NVCC)
    get_filename_component(beside_nvcc "${REPRISE_NVCC}" REALPATH)
    get_filename_component(beside_nvcc "${beside_nvcc}" DIRECTORY)
  endif()
  find_path(REPRISE_CUDA_INCLUDE_DIR cuda.h
    HINTS "${CUDAToolkit_ROOT}" ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH "${beside_nvcc}/.."
    PATHS /usr/local/cuda
    PATH_SUFFIXES include
    DOC "The folder of cuda.h")
  mark_as_advanced(REPRISE_CUDA_INCLUDE_DIR)
  set(${result} FALSE PARENT_SCOPE)
  if(NOT REPRISE_CUDA_INCLUDE_DIR)
    set(${why} "cuda.h was not found; CUDAToolkit_ROOT can name the folder of the toolkit" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS "${REPRISE_CUDA_INCLUDE_DIR}/cuda.h" version REGEX "^#define CUDA_VERSION [0-9]+" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+" version "${version}")
  if(NOT version OR version LESS 12040 OR NOT version LESS 14000)
    set(${why} "${REPRISE_CUDA_INCLUDE_DIR}/cuda.h is of version '${version}'; CUDA 12.4 to 13 is needed (12040 to 13990)" PARENT_SCOPE)
    return()
  endif()
  set(${result} TRUE PARENT_SCOPE)
endfunction()

# Removes the sources of src/backend/cuda from `sources`, and adds to `target` those to be built.
function(reprise_add_cuda_backend target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cpp")
  # Sources without headers of CUDA are always built and tested.
  set(plain "${sources}")
  list(FILTER plain INCLUDE REGEX "/cuda/(monitor/[^/]*|log_text)\\.cpp$")
  set(stand_in "${PROJECT_SOURCE_DIR}/src/backend/cuda/no_cuda.cpp")
  list(REMOVE_ITEM sources ${plain} "${stand_in}")
  target_sources(${target} PRIVATE ${plain})

  set(found FALSE)
  set(why "REPRISE_CUDA is OFF")
  if(REPRISE_CUDA)
    _reprise_find_cuda_headers(found why)
  endif()
  set(reprise_has_cuda ${found} CACHE INTERNAL "Does reprise support CUDA devices?")
  set(reprise_has_cupti FALSE CACHE INTERNAL "Can reprise watch calls of CUDA?")
  if(NOT found)
    if(REPRISE_CUDA AND NOT REPRISE_CUDA STREQUAL "AUTO")
      message(FATAL_ERROR "REPRISE_CUDA is ${REPRISE_CUDA}, but ${why}")
    endif()
    message(STATUS "CUDA devices: not supported by this build (${why})")
    target_sources(${target} PRIVATE "${stand_in}")
    return()
  endif()

  message(STATUS "CUDA devices: supported, with the headers of ${REPRISE_CUDA_INCLUDE_DIR}")
  _reprise_choose_cupti_sources(sources)
  # A target of its own, so that CUDA's headers are seen by these files alone.
  add_library(${target}_cuda OBJECT ${sources})
  set_target_properties(${target}_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${target}_cuda PUBLIC cxx_std_20)
  target_include_directories(${target}_cuda PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_include_directories(${target}_cuda SYSTEM PRIVATE ${reprise_cuda_include_dirs})
  target_link_libraries(${target}_cuda PRIVATE reprise_fmt_headers)
  reprise_set_warnings(${target}_cuda)
  reprise_group_sources(${target}_cuda)
  target_sources(${target} PRIVATE "$<TARGET_OBJECTS:${target}_cuda>")
  _reprise_add_own_kernels(${target}_cuda)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()

# Keeps those of the sources in `list` that can be built: the ones that open CUPTI, or their replacement. Sets
# reprise_has_cupti, and reprise_cuda_include_dirs to the folders of the headers of CUDA and of CUPTI.
function(_reprise_choose_cupti_sources list)
  find_path(REPRISE_CUPTI_INCLUDE_DIR cupti.h
    HINTS "${REPRISE_CUDA_INCLUDE_DIR}" "${REPRISE_CUDA_INCLUDE_DIR}/../extras/CUPTI/include"
    NO_DEFAULT_PATH
    DOC "The folder of cupti.h, with which calls of CUDA can be watched")
  mark_as_advanced(REPRISE_CUPTI_INCLUDE_DIR)
  set(dirs "${REPRISE_CUDA_INCLUDE_DIR}")
  set(left "${${list}}")
  if(REPRISE_CUPTI_INCLUDE_DIR)
    set(reprise_has_cupti TRUE CACHE INTERNAL "Can reprise watch calls of CUDA?")
    list(APPEND dirs "${REPRISE_CUPTI_INCLUDE_DIR}")
    list(FILTER left EXCLUDE REGEX "/no_cupti\\.cpp$")
  else()
    message(STATUS "CUDA devices: calls of CUDA cannot be watched, because cupti.h was not found beside cuda.h")
    list(FILTER left EXCLUDE REGEX "/cupti/(cupti_[^/]*|driver_calls)\\.cpp$")
  endif()
  list(REMOVE_DUPLICATES dirs)
  set(reprise_cuda_include_dirs "${dirs}" CACHE INTERNAL "Where the headers of CUDA and of CUPTI lie")
  set(${list} "${left}" PARENT_SCOPE)
endfunction()

# Sets `result` to the command of an nvcc that compiles a test, else to an empty string and `why`.
function(_reprise_find_working_nvcc result why)
  set(${result} "" PARENT_SCOPE)
  if(CMAKE_CUDA_COMPILER)
    set(command "${CMAKE_CUDA_COMPILER}")
  elseif(NOT "$ENV{CUDACXX}" STREQUAL "")
    set(command "$ENV{CUDACXX}")
  elseif(REPRISE_NVCC)
    set(command "${REPRISE_NVCC}")
  else()
    set(${why} "nvcc was not found" PARENT_SCOPE)
    return()
  endif()
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND command "-ccbin=${CMAKE_CUDA_HOST_COMPILER}")
  endif()
  if(NOT "${command}" STREQUAL "${REPRISE_CHECKED_NVCC}")
    set(probe "${CMAKE_CURRENT_BINARY_DIR}/check_nvcc")
    file(WRITE "${probe}.cu" "#include <atomic>\n#include <span>\n__global__ void kernel() {}\n")
    execute_process(COMMAND ${command} -std=c++20 --fatbin "${probe}.cu" -o "${probe}.fatbin"
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed EQUAL 0)
      list(JOIN command " " command)
      set(${why} "${command} cannot compile C++20" PARENT_SCOPE)
      return()
    endif()
    set(REPRISE_CHECKED_NVCC "${command}" CACHE INTERNAL "What compiled a kernel successfully")
  endif()
  set(${result} "${command}" PARENT_SCOPE)
endfunction()

# Sets `result` to the version of CUDA that an nvcc is of, as 1000 * major + 10 * minor, and `architectures` to those that
# it can compile for, as 80;90.
function(_reprise_describe_nvcc nvcc result architectures)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" found "${text}")
  if(NOT found)
    message(FATAL_ERROR "nvcc --version printed no version of CUDA, but: ${text}")
  endif()
  math(EXPR version "1000 * ${CMAKE_MATCH_1} + 10 * ${CMAKE_MATCH_2}")
  set(${result} ${version} PARENT_SCOPE)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCHALL "compute_[0-9]+" found "${text}")
  list(TRANSFORM found REPLACE "compute_" "")
  set(${architectures} "${found}" PARENT_SCOPE)
endfunction()

# The library's own kernels. own_kernels.cpp includes the files as data.
function(_reprise_add_own_kernels target)
  set(reprise_has_own_ptx FALSE CACHE INTERNAL "Do own kernels run on every driver?")
  set(reprise_nvcc_version 0 CACHE INTERNAL "The version of the nvcc that compiled own kernels; 0 if there is none")
  if(NOT REPRISE_OWN_KERNELS)
    return()
  endif()
  _reprise_add_own_ptx(${target})
  _reprise_find_working_nvcc(nvcc why)
  if(nvcc)
    _reprise_add_kernels_by_nvcc(${target} "${nvcc}")
  elseif(NOT REPRISE_OWN_KERNELS STREQUAL "AUTO")
    message(FATAL_ERROR "REPRISE_OWN_KERNELS is ${REPRISE_OWN_KERNELS}, but ${why}; CUDAToolkit_ROOT can name the folder "
      "of the toolkit, CMAKE_CUDA_HOST_COMPILER a compiler that nvcc takes")
  elseif(reprise_has_own_ptx)
    message(STATUS "CUDA devices: control flow will be refused there, because ${why}")
  else()
    message(STATUS "CUDA devices: batches of copies and fills will be refused there, because ${why}")
  endif()
endfunction()

# Compiles src/kernels/own_kernels.cu by NVRTC of CUDA 12.4, where it is found, to PTX that all supported drivers load. Sets
# reprise_has_own_ptx.
function(_reprise_add_own_ptx target)
  reprise_cache_folder(home nvrtc-12.4 REPRISE_NVRTC_DIR)
  file(GLOB candidates "${home}/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib")
  find_file(REPRISE_NVRTC libnvrtc.so.12 HINTS ${candidates} NO_DEFAULT_PATH DOC "NVRTC of CUDA 12.4")
  mark_as_advanced(REPRISE_NVRTC)
  if(NOT REPRISE_NVRTC)
    message(STATUS "CUDA devices: own kernels are not compiled for drivers of older major versions than nvcc's, because NVRTC "
      "12.4 is not in ${home}; scripts/setup-nvrtc puts it there")
    return()
  endif()
  set(reprise_has_own_ptx TRUE CACHE INTERNAL "Do own kernels run on every driver?")
  add_executable(reprise_compile_ptx "${PROJECT_SOURCE_DIR}/tools/compile_ptx/compile_ptx.cpp")
  target_compile_features(reprise_compile_ptx PRIVATE cxx_std_20)
  target_link_libraries(reprise_compile_ptx PRIVATE ${CMAKE_DL_LIBS})
  # AddressSanitizer opens libraries itself, so that NVRTC does not find the second one beside it.
  if(REPRISE_SANITIZE)
    target_compile_options(reprise_compile_ptx PRIVATE -fno-sanitize=all)
    target_link_options(reprise_compile_ptx PRIVATE -fno-sanitize=all)
  endif()
  reprise_set_warnings(reprise_compile_ptx)
  set(source "${PROJECT_SOURCE_DIR}/src/kernels/own_kernels.cu")
  set(ptx "${CMAKE_CURRENT_BINARY_DIR}/own_kernels.ptx")
  # NVRTC writes no list of the headers that it read.
  file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernels/*.h" "${PROJECT_SOURCE_DIR}/src/kernels/nvrtc/*")
  add_custom_command(OUTPUT "${ptx}"
    COMMAND reprise_compile_ptx "${REPRISE_NVRTC}" "${source}" "${ptx}"
      -std=c++20 --gpu-architecture=compute_80 -default-device "-I${PROJECT_SOURCE_DIR}/src/kernels/nvrtc"
      "-I${PROJECT_SOURCE_DIR}/include" "-I${PROJECT_SOURCE_DIR}/src"
    DEPENDS "${source}" ${headers} "${PROJECT_SOURCE_DIR}/include/reprise/detail/batch_ops.h"
      "${PROJECT_SOURCE_DIR}/include/reprise/device_code.h"
    COMMENT "Compiling the library's own kernels with NVRTC"
    VERBATIM)
  add_custom_target(${target}_own_ptx DEPENDS "${ptx}")
  add_dependencies(${target} ${target}_own_ptx)
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/backend/cuda/own_kernels.cpp" APPEND PROPERTY
    COMPILE_DEFINITIONS "REPRISE_OWN_PTX=\"${ptx}\"")
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/backend/cuda/own_kernels.cpp" APPEND PROPERTY OBJECT_DEPENDS "${ptx}")
endfunction()

# Compiles src/kernels/own_kernels.cu by nvcc to machine code for the architectures that are tested, and to PTX for later
# ones, and condition_kernel.cu to machine code, linked with libcudadevrt. nvcc is called by hand: the language CUDA would
# link its runtime.
function(_reprise_add_kernels_by_nvcc target nvcc)
  _reprise_describe_nvcc("${nvcc}" version architectures)
  set(reprise_nvcc_version ${version} CACHE INTERNAL "The version of the nvcc that compiled own kernels; 0 if there is none")
  set(source "${PROJECT_SOURCE_DIR}/src/kernels/own_kernels.cu")
  set(fatbin "${CMAKE_CURRENT_BINARY_DIR}/own_kernels.fatbin")
  add_custom_command(OUTPUT "${fatbin}"
    COMMAND ${nvcc} -std=c++20 -O3 --fatbin
      -gencode "arch=compute_80,code=[sm_80,compute_80]" -gencode "arch=compute_90,code=sm_90"
      "-I${PROJECT_SOURCE_DIR}/include" "-I${PROJECT_SOURCE_DIR}/src"
      -MD -MF "${fatbin}.d" "${source}" -o "${fatbin}"
    DEPENDS "${source}"
    DEPFILE "${fatbin}.d"
    COMMENT "Compiling the library's own kernels with nvcc"
    VERBATIM)
  # PTX cannot be linked at build time, so there is code for each family of architectures that has conditional nodes.
  set(condition_source "${PROJECT_SOURCE_DIR}/src/kernels/condition_kernel.cu")
  set(condition_object "${CMAKE_CURRENT_BINARY_DIR}/condition_kernel.o")
  set(condition_fatbin "${CMAKE_CURRENT_BINARY_DIR}/condition_kernel.fatbin")
  set(families)
  set(condition_architectures)
  foreach(family IN ITEMS 80 90 100 101 110 120) # 110 was called 101 before CUDA 13
    if(family IN_LIST architectures)
      list(APPEND families -gencode "arch=compute_${family},code=sm_${family}")
      list(APPEND condition_architectures "sm_${family}")
    endif()
  endforeach()
  set(reprise_condition_architectures "${condition_architectures}" CACHE INTERNAL "What nvcc compiled condition_kernel.cu for")
  add_custom_command(OUTPUT "${condition_fatbin}"
    COMMAND ${nvcc} -std=c++20 -O3 -rdc=true -dc ${families}
      "-I${PROJECT_SOURCE_DIR}/include" "-I${PROJECT_SOURCE_DIR}/src"
      -MD -MF "${condition_fatbin}.d" -MT "${condition_fatbin}" "${condition_source}" -o "${condition_object}"
    COMMAND ${nvcc} -dlink --fatbin ${families} "${condition_object}" -lcudadevrt -o "${condition_fatbin}"
    BYPRODUCTS "${condition_object}"
    DEPENDS "${condition_source}"
    DEPFILE "${condition_fatbin}.d"
    COMMENT "Compiling the kernel that sets conditions with nvcc"
    VERBATIM)
  add_custom_target(${target}_own_kernels DEPENDS "${fatbin}" "${condition_fatbin}")
  add_dependencies(${target} ${target}_own_kernels)
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/backend/cuda/own_kernels.cpp" APPEND PROPERTY COMPILE_DEFINITIONS
    "REPRISE_OWN_KERNELS=\"${fatbin}\"" "REPRISE_CONDITION_KERNEL=\"${condition_fatbin}\""
    "REPRISE_OWN_KERNELS_VERSION=${version}")
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/src/backend/cuda/own_kernels.cpp" APPEND PROPERTY
    OBJECT_DEPENDS "${fatbin}" "${condition_fatbin}")
endfunction()
