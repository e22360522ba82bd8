# SPDX-License-Identifier: Apache-2.0
# Compiles the sources of a folder in groups, each as one file: what they include is read once for a group instead of
# once for each. Most of the time that libtorch, GoogleMock and the standard library take is saved by it.
#
#   REPRISE_GROUP_SOURCES         ON, the default: in groups; OFF: one by one, for work on single files
#   reprise_group_sources(<target> [SIZE <n>] [WHOLE])   SIZE: files in a group, 8 if not given; WHOLE: one group
#   reprise_precompile(<name> <target> <header>...)      compiles headers once, for all targets that are given the same name;
#                                                        these must have the same options of the compiler
#
# Groups have files of one folder. In src that is a floor with its sub-folders, in src/backend and src/libtorch a
# sub-folder.
# Files of one group share anonymous namespaces: a name may stand in one of them only. A file that cannot be grouped has
# the property SKIP_UNITY_BUILD_INCLUSION. Call it in the directory of the target, when the target has all its sources.

option(REPRISE_GROUP_SOURCES "Compile sources in groups: a build of everything is faster, one after a change slower" ON)
mark_as_advanced(REPRISE_GROUP_SOURCES)

function(reprise_group_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "WHOLE" "SIZE" "")
  if(NOT REPRISE_GROUP_SOURCES)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC looks for garbage from 128 MB on, which a precompiled header alone has: a sixth of the time. A group needs a
    # tenth more memory without.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>")
  endif()
  if(arg_WHOLE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE 0)
    return()
  endif()
  if(NOT arg_SIZE)
    set(arg_SIZE 8)
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(SORT sources)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" ABSOLUTE)
    get_filename_component(folder "${folder}" DIRECTORY)
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${folder}")
    string(REGEX REPLACE "^(src/((backend|libtorch)/)?[^/]*).*" "\\1" folder "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR group "${count_${folder}} + 0")
    math(EXPR count_${folder} "${group} + 1")
    math(EXPR group "${group} / ${arg_SIZE}")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

function(reprise_precompile name target)
  if(NOT REPRISE_GROUP_SOURCES)
    return()
  endif()
  get_property(first GLOBAL PROPERTY reprise_precompiled_${name})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY reprise_precompiled_${name} ${target})
  endif()
endfunction()
