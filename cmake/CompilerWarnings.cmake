# SPDX-License-Identifier: Apache-2.0
# The warnings for all code of the project.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "reprise needs GCC 12 or later; this is ${CMAKE_CXX_COMPILER_VERSION}")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "reprise needs Clang 14 or later; this is ${CMAKE_CXX_COMPILER_VERSION}")
endif()

function(reprise_set_warnings target)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$")
    return()
  endif()
  set(flags -Wall -Wextra -Wpedantic -Wshadow -Woverloaded-virtual -Wextra-semi)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 and 13 at -O2 see an overlapping copy in std::string's operator+ where there is none (GCC bug 105651).
    if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
      list(APPEND flags -Wno-restrict)
    endif()
    # The code that GCC's sanitizers insert hides initialisations from its own flow analysis.
    if(REPRISE_SANITIZE)
      list(APPEND flags -Wno-maybe-uninitialized)
    endif()
  endif()
  if(REPRISE_WERROR)
    list(APPEND flags -Werror)
    # These depend on what the optimiser inlines: versions differ in where they see what is not there, often within
    # the headers of the C++ library (array-bounds of GCC 14 in std::vector<bool>).
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND flags -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=stringop-overread
        -Wno-error=maybe-uninitialized -Wno-error=free-nonheap-object -Wno-error=use-after-free)
    endif()
  endif()
  # What nvcc compiles (reprise_add_kernels) is compiled by the C++ compiler elsewhere, and gets its warnings there.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
endfunction()
