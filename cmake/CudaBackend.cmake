# SPDX-License-Identifier: Apache-2.0
# src/backend/cuda needs CUDA's headers, no more: the driver is opened at run time, and nothing of CUDA is linked.
#
#   REPRISE_CUDA                AUTO (build it if the headers are found), ON (fail if they are not), OFF
#   REPRISE_OWN_KERNELS         AUTO (compile the library's own kernels if nvcc is found), ON (fail if it is not), OFF
#   REPRISE_CUDA_INCLUDE_DIR    where cuda.h lies; looked for beside CUDAToolkit_ROOT, CUDA_HOME, CUDA_PATH and nvcc, and
#                               in /usr/local/cuda
#   reprise_has_cuda            set here: whether it is built
#   reprise_has_cupti           set here: whether calls of CUDA can be watched, for which CUPTI's headers are needed
#   reprise_has_nvtx            set here: whether tools get ranges, for which NVTX's header is needed

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
  _reprise_add_nvtx_ranges(${target} ${found})
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

# Ranges for tools, on every device: adds to `target` the source that calls NVTX, a header of CUDA's toolkit, or its
# replacement. The include folder is for that file alone.
function(_reprise_add_nvtx_ranges target cuda_found)
  set(found FALSE)
  if(cuda_found)
    find_path(REPRISE_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
      HINTS "${REPRISE_CUDA_INCLUDE_DIR}"
      NO_DEFAULT_PATH
      DOC "The folder above nvtx3/nvToolsExt.h, with which tools get ranges")
    mark_as_advanced(REPRISE_NVTX_INCLUDE_DIR)
    if(REPRISE_NVTX_INCLUDE_DIR)
      set(found TRUE)
    endif()
  endif()
  set(reprise_has_nvtx ${found} CACHE INTERNAL "Does reprise make ranges for tools?")
  if(NOT found)
    message(STATUS "Tools get no ranges of annotations, because nvtx3/nvToolsExt.h was not found beside cuda.h")
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src/inspect/annotations/no_nvtx.cpp")
    return()
  endif()
  set(source "${PROJECT_SOURCE_DIR}/src/inspect/annotations/nvtx_ranges.cpp")
  set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-isystem;${REPRISE_NVTX_INCLUDE_DIR}")
  target_sources(${target} PRIVATE "${source}")
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

# Compiles src/kernels/own_kernels.cu by nvcc to machine code for the architectures that are tested, and to PTX for later
# ones, and condition_kernel.cu to machine code, linked with libcudadevrt. own_kernels.cpp includes the files as data. nvcc
# is called by hand: the language CUDA would link its runtime.
function(_reprise_add_own_kernels target)
  if(NOT REPRISE_OWN_KERNELS)
    return()
  endif()
  _reprise_find_working_nvcc(nvcc why)
  if(NOT nvcc)
    if(REPRISE_OWN_KERNELS STREQUAL "AUTO")
      message(STATUS "CUDA devices: batches of copies and fills will be refused there, because ${why}")
      return()
    endif()
    message(FATAL_ERROR "REPRISE_OWN_KERNELS is ${REPRISE_OWN_KERNELS}, but ${why}; CUDAToolkit_ROOT can name the folder "
      "of the toolkit, CMAKE_CUDA_HOST_COMPILER a compiler that nvcc takes")
  endif()
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
  foreach(family IN ITEMS 80 90 100 110 120)
    list(APPEND families -gencode "arch=compute_${family},code=sm_${family}")
  endforeach()
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
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/backend/cuda/own_kernels.cpp" PROPERTIES
    COMPILE_DEFINITIONS "REPRISE_OWN_KERNELS=\"${fatbin}\";REPRISE_CONDITION_KERNEL=\"${condition_fatbin}\""
    OBJECT_DEPENDS "${fatbin};${condition_fatbin}")
endfunction()
