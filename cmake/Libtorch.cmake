# SPDX-License-Identifier: Apache-2.0
# The component reprise::libtorch, where torch is found: the wheel that scripts/setup-libtorch fetches, or the folder
# `torch` of another one (REPRISE_TORCH). Imported by hand: TorchConfig.cmake wants a GPU, or a list of architectures
# and nvcc, and CUDA's toolkit where this layer needs none of it.

set(REPRISE_TORCH_VERSION 2.11.0)

function(reprise_add_libtorch missing_var)
  set(home "$ENV{REPRISE_TORCH_DIR}")
  if(NOT home)
    set(home "$ENV{XDG_CACHE_HOME}")
    if(NOT home)
      set(home "$ENV{HOME}/.cache")
    endif()
    set(home "${home}/reprise/torch-${REPRISE_TORCH_VERSION}")
  endif()
  file(GLOB candidates "${home}/lib/python3*/site-packages/torch")
  find_path(REPRISE_TORCH include/torch/library.h HINTS ${candidates} NO_DEFAULT_PATH
    DOC "The folder `torch` of the wheel of torch ${REPRISE_TORCH_VERSION}")
  mark_as_advanced(REPRISE_TORCH)
  if(NOT REPRISE_TORCH)
    set(${missing_var} "torch ${REPRISE_TORCH_VERSION} is not in ${home}; scripts/setup-libtorch puts it there" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS "${REPRISE_TORCH}/include/torch/headeronly/version.h" version REGEX "^  \"[0-9.]+\"")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" version "${version}")
  if(NOT version STREQUAL REPRISE_TORCH_VERSION)
    message(FATAL_ERROR "reprise::libtorch is written for torch ${REPRISE_TORCH_VERSION}; found ${version} in "
      "${REPRISE_TORCH}. Point REPRISE_TORCH to that version, run scripts/setup-libtorch, or set REPRISE_LIBTORCH=OFF")
  endif()

  add_library(reprise_torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(reprise_torch SYSTEM INTERFACE "${REPRISE_TORCH}/include"
    "${REPRISE_TORCH}/include/torch/csrc/api/include")
  # libtorch registers its operators when it is loaded: it must not be left out because nothing asks for a symbol.
  target_link_libraries(reprise_torch INTERFACE
    "-Wl,--no-as-needed" "${REPRISE_TORCH}/lib/libtorch_cpu.so" "${REPRISE_TORCH}/lib/libc10.so"
    "${REPRISE_TORCH}/lib/libgomp.so.1" "-Wl,--as-needed")

  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/libtorch/*.cpp")
  add_library(reprise_libtorch ${sources})
  add_library(reprise::libtorch ALIAS reprise_libtorch)
  set_target_properties(reprise_libtorch PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(reprise_libtorch PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(reprise_libtorch PUBLIC reprise::reprise reprise_torch PRIVATE "$<BUILD_INTERFACE:fmt::fmt-header-only>")
  reprise_set_warnings(reprise_libtorch)
  set(${missing_var} "" PARENT_SCOPE)
endfunction()
