# SPDX-License-Identifier: Apache-2.0
# What the shared libraries export: what reprise/detail/export.h marks, in the namespace reprise and the interface for C. All
# else is hidden: their inner parts, fmt, and what the standard library's templates make of either.
# Tests and benchmarks use inner parts: a shared library that is built with them exports these, too.
# A static library hides nothing, so that stacks of reports have the names of its functions.

function(reprise_hide_symbols target)
  if(NOT BUILD_SHARED_LIBS)
    return()
  endif()
  if(REPRISE_BUILD_TESTS OR REPRISE_BUILD_BENCHMARKS)
    message(STATUS "${target}: exports its inner parts, too, because tests or benchmarks are built")
    return()
  endif()
  set(targets ${target})
  if(TARGET ${target}_cuda)
    list(APPEND targets ${target}_cuda)
  endif()
  set_target_properties(${targets} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  set(map "${PROJECT_SOURCE_DIR}/cmake/exports.map")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
endfunction()
