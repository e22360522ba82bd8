# SPDX-License-Identifier: Apache-2.0
# The component cublas: the target reprise::cublas, which is the header reprise/cublas.h with cuBLAS, cuBLASLt and
# CUDA's static runtime. The same file serves the project itself and the installed package.
#
#   reprise_add_cublas(<missing> [GLOBAL])    makes the target if CUDA's toolkit and cuBLAS are found; <missing> is empty
#                                             then, else it says what was not
#
# CUDAToolkit_ROOT names the toolkit; else CMake looks beside nvcc and in /usr/local/cuda.

include("${CMAKE_CURRENT_LIST_DIR}/CudaLibraries.cmake")

macro(reprise_add_cublas missing)
  set(${missing} "")
  if(NOT TARGET reprise::cublas)
    if(NOT reprise_has_cuda)
      set(${missing} "this build of reprise does not support CUDA devices")
    else()
      find_package(CUDAToolkit 13 QUIET ${ARGN})
      if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart_static)
        set(${missing} "the toolkit of CUDA 13 was not found; CUDAToolkit_ROOT can name its folder")
      else()
        reprise_find_cuda_library(cublas HEADER cublas_v2.h LIBRARIES cublas cublasLt SOVERSION 13)
        if(NOT REPRISE_CUBLAS_LIBRARIES)
          set(${missing} "cuBLAS was not found, neither in ${CUDAToolkit_LIBRARY_DIR} nor elsewhere")
        endif()
      endif()
    endif()
    if("${${missing}}" STREQUAL "")
      add_library(reprise::cublas INTERFACE IMPORTED ${ARGN})
      target_include_directories(reprise::cublas SYSTEM INTERFACE "${REPRISE_CUBLAS_INCLUDE_DIR}")
      target_link_libraries(reprise::cublas INTERFACE
        reprise::reprise CUDA::cudart_static ${REPRISE_CUBLAS_LIBRARIES})
    endif()
  endif()
endmacro()
