# SPDX-License-Identifier: Apache-2.0
# The components: libraries of their own, which link the core and are not linked by it. A program that uses one links it,
# and gets the core with it.
#
#   reprise_components                     their names, without those for libtorch (Libtorch.cmake)
#   reprise_component_folders              their folders of sources, which the core leaves out
#   reprise_add_component(<name> <core> <source>...)   makes the target reprise_<name>, with the alias reprise::<name>
#   reprise_add_components()               makes those of the list

set(reprise_components compare timings c)
set(reprise_component_folders src/inspect/compare src/inspect/timings src/c_api)

function(reprise_add_component name core)
  set(target reprise_${name})
  # With the implementation of fmt, which a shared core hides; torch has headers of another version of it.
  add_library(${target} ${ARGN} "${PROJECT_SOURCE_DIR}/src/text/format.cpp")
  add_library(reprise::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    DEFINE_SYMBOL ""
    POSITION_INDEPENDENT_CODE ON
    INSTALL_RPATH "$ORIGIN" # a program that links a shared component alone finds the core beside it
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC ${core} PRIVATE "$<BUILD_INTERFACE:reprise_fmt_headers>")
  target_compile_options(${target} PRIVATE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
  reprise_set_warnings(${target})
  reprise_hide_symbols(${target})
endfunction()

function(reprise_add_components)
  foreach(name folder IN ZIP_LISTS reprise_components reprise_component_folders)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
    reprise_add_component(${name} reprise::reprise ${sources})
    if(NOT REPRISE_SANITIZE)
      target_link_options(reprise_${name} PRIVATE "LINKER:-z,defs") # of a shared core, what it exports must do
    endif()
    reprise_group_sources(reprise_${name} SIZE 14)
    reprise_precompile(reprise reprise_${name})
  endforeach()
endfunction()
