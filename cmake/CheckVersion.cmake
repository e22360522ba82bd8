# SPDX-License-Identifier: Apache-2.0
# Fails if the two places of the version differ: project() for the package, and version.h for programs.

file(STRINGS "${PROJECT_SOURCE_DIR}/include/reprise/version.h" version_lines REGEX "^#define REPRISE_VERSION")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/reprise/version.h")

set(numbers "")
foreach(part MAJOR MINOR PATCH)
  if(NOT "${version_lines}" MATCHES "#define REPRISE_VERSION_${part} ([0-9]+)")
    message(FATAL_ERROR "include/reprise/version.h does not define REPRISE_VERSION_${part} as a number")
  endif()
  list(APPEND numbers "${CMAKE_MATCH_1}")
endforeach()
list(JOIN numbers "." numbers)
if(NOT "${version_lines}" MATCHES "#define REPRISE_VERSION \"([^\"]*)\"")
  message(FATAL_ERROR "include/reprise/version.h does not define REPRISE_VERSION as a text")
endif()
set(text "${CMAKE_MATCH_1}")

if(NOT numbers STREQUAL PROJECT_VERSION OR NOT text STREQUAL PROJECT_VERSION)
  message(FATAL_ERROR
    "include/reprise/version.h says ${numbers} in numbers and \"${text}\" as a text, project() in CMakeLists.txt says "
    "${PROJECT_VERSION}: make all three the same")
endif()
