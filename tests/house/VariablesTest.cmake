# SPDX-License-Identifier: Apache-2.0
# Compares the environment variables that sources in SOURCES name with the list of `reprise doctor`, DOCTOR.

file(READ "${DOCTOR}" doctor)
file(GLOB_RECURSE sources "${SOURCES}/*.cpp" "${SOURCES}/*.h")
list(FILTER sources EXCLUDE REGEX "/c_api/") # whose enumerators have such names
set(count 0)
foreach(source IN LISTS sources)
  file(STRINGS "${source}" lines REGEX "\"REPRISE_[A-Z_]+\"")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "\"REPRISE_[A-Z_]+\"" name "${line}")
    string(FIND "${doctor}" "${name}," found)
    if(found EQUAL -1)
      message(SEND_ERROR "${source}: expected ${name}, in the list of ${DOCTOR}")
    endif()
    math(EXPR count "${count} + 1")
  endforeach()
endforeach()
if(count LESS 5)
  message(SEND_ERROR "expected five variables or more in ${SOURCES}; found ${count}")
endif()
