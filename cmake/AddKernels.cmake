# SPDX-License-Identifier: Apache-2.0
# Kernels from one source, for the host device and for CUDA:
#
#   reprise_add_kernels(<target> <source>...)
#
# has the sources compiled by nvcc as CUDA C++20, so that the kernels which they launch run on CUDA devices as well, and
# links CUDA's runtime statically into <target>. Without nvcc, or with a library that was built without CUDA, the host
# compiler compiles them, and the kernels run on the host device alone. Either way the sources stay .cpp files.
#
# Pass every source of the target that launches kernels. The project() of the caller may name CXX alone: the language
# CUDA is enabled at the first use, which CMake requires outside of functions, and in the directory of the target or
# above it. A target in a function needs it before: reprise_enable_kernels(), or project(... LANGUAGES CXX CUDA).
#
#   CMAKE_CUDA_COMPILER, CUDACXX           the nvcc to use; looked for in PATH and in /usr/local/cuda
#   CMAKE_CUDA_ARCHITECTURES, CUDAARCHS    what to compile for; 80 and 90, and PTX for what comes later, if neither is
#                                          set. The property CUDA_ARCHITECTURES of the target overrides both
#   REPRISE_CUDA_KERNELS                   OFF: never use nvcc

macro(reprise_add_kernels target)
  reprise_enable_kernels()
  _reprise_compile_kernels("${target}" ${ARGN})
endmacro()

# Enables the language CUDA if there is an nvcc that works. Not in a function.
macro(reprise_enable_kernels)
  if(reprise_has_cuda AND (NOT DEFINED REPRISE_CUDA_KERNELS OR REPRISE_CUDA_KERNELS)
      AND NOT CMAKE_CUDA_COMPILER_LOADED AND NOT reprise_kernels_checked)
    set(reprise_kernels_checked TRUE) # once in a directory
    if(NOT DEFINED CMAKE_CUDA_COMPILER AND "$ENV{CUDACXX}" STREQUAL "")
      find_program(REPRISE_NVCC nvcc PATHS /usr/local/cuda/bin DOC "CUDA's compiler")
      mark_as_advanced(REPRISE_NVCC)
      if(REPRISE_NVCC)
        set(ENV{CUDACXX} "${REPRISE_NVCC}")
      endif()
    endif()
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND "$ENV{CUDAARCHS}" STREQUAL "")
      set(CMAKE_CUDA_ARCHITECTURES "80-real;90")
    endif()
    # Fails softly where enable_language would end the configuration.
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      if(CMAKE_CURRENT_FUNCTION)
        message(FATAL_ERROR "${CMAKE_CURRENT_FUNCTION}() is a function, in which CMake cannot enable the language CUDA: call "
          "reprise_enable_kernels() before it, outside of functions, or name CUDA in project()")
      endif()
      enable_language(CUDA)
    endif()
  endif()
  # CMake before 3.26 has no flag of nvcc for C++20.
  if(CMAKE_CUDA_COMPILER_LOADED AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
endmacro()

function(_reprise_compile_kernels target)
  if(NOT reprise_has_cuda OR (DEFINED REPRISE_CUDA_KERNELS AND NOT REPRISE_CUDA_KERNELS)
      OR NOT CMAKE_CUDA_COMPILER_LOADED)
    return()
  endif()
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF
    CUDA_RUNTIME_LIBRARY Static)
  # A target that is older than the language has none.
  get_property(has_architectures TARGET ${target} PROPERTY CUDA_ARCHITECTURES SET)
  if(NOT has_architectures)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
  endif()
endfunction()
