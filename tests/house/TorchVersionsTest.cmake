# SPDX-License-Identifier: Apache-2.0
# Has cmake/Torch.cmake (MODULE) read the version of folders that it writes to FOLDER, and accept or refuse it.

# A version, the header that names it, and what is said of it; nothing: it is accepted without a word.
set(cases [[
2.7.1   torch/csrc/api/include/torch/version.h  written for torch 2.8 to 2.15, and tested with 2.8.0, 2.11.0, 2.15.0; found 2.7.1
2.8.0   torch/csrc/api/include/torch/version.h
2.8.1   torch/csrc/api/include/torch/version.h  torch 2.8.1 should work
2.10.0  torch/headeronly/version.h              torch 2.10.0 should work, but is not tested; tested are 2.8.0, 2.11.0, 2.15.0
2.11.0  torch/headeronly/version.h
2.15.0  torch/headeronly/version.h
2.15.1  torch/headeronly/version.h              torch 2.15.1 should work
2.16.0  torch/headeronly/version.h              found 2.16.0
3.9.0   torch/headeronly/version.h              found 3.9.0
2.11.0  torch/some/other/header.h               found an older one
]])
file(WRITE "${FOLDER}/check.cmake" [[
include("${MODULE}")
set(REPRISE_TORCH "${TORCH}")
reprise_get_torch_version(version "${TORCH}")
reprise_check_torch_version("${version}")
]])

string(REGEX REPLACE ";" "\\\\;" cases "${cases}")
string(REGEX REPLACE "\n" ";" cases "${cases}")
set(count 0)
foreach(case IN LISTS cases)
  if(NOT case MATCHES "^([0-9.]+) +([^ ]+) *(.*)$")
    continue()
  endif()
  set(version "${CMAKE_MATCH_1}")
  set(header "${CMAKE_MATCH_2}")
  set(expected "${CMAKE_MATCH_3}")
  math(EXPR count "${count} + 1")
  file(WRITE "${FOLDER}/${count}/include/${header}" "#define TORCH_VERSION \\\n  \"${version}\"\n")
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DMODULE=${MODULE}" "-DTORCH=${FOLDER}/${count}" -P "${FOLDER}/check.cmake"
    OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  string(FIND "${said}" "${expected}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "torch ${version}: expected \"${expected}\"; found \"${said}\"")
  endif()
  if(expected MATCHES "found" AND result EQUAL 0)
    message(FATAL_ERROR "torch ${version}: expected to be refused; it was not")
  elseif(NOT expected MATCHES "found" AND NOT result EQUAL 0)
    message(FATAL_ERROR "torch ${version}: expected to be accepted; found \"${said}\"")
  elseif(expected STREQUAL "" AND NOT said STREQUAL "")
    message(FATAL_ERROR "torch ${version}: expected no message; found \"${said}\"")
  endif()
endforeach()
if(NOT count EQUAL 10)
  message(FATAL_ERROR "expected 9 cases; found ${count}")
endif()
