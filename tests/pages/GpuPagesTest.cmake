# SPDX-License-Identifier: Apache-2.0
# Fails if a page has a program that needs a GPU, and its test lacks the labels by which scripts/gpu-test finds it.
#   cmake -D FOLDER=build/dev/tests/pages -D GROUPS=cuda,cuda_tensors -P GpuPagesTest.cmake

file(READ "${FOLDER}/CTestTestfile.cmake" tests)
string(REPLACE "," ";" groups "${GROUPS}")
set(found 0)
foreach(group IN LISTS groups)
  set(labels "docs;gpu")
  if(group STREQUAL "cuda_tensors")
    set(labels "docs;gpu;libtorch")
  endif()
  # Sources of groups that this build compiles; those that were only written are in new/.
  file(GLOB sources "${FOLDER}/*/${group}.cpp")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH page)
    cmake_path(GET page FILENAME page)
    string(FIND "${tests}" "set_tests_properties([=[docs.${page}.with_${group}]=] PROPERTIES  LABELS \"${labels}\"" at)
    if(at EQUAL -1)
      message(SEND_ERROR "docs.${page}.with_${group} is no test with the labels ${labels}: scripts/gpu-test leaves it out")
    endif()
    math(EXPR found "${found} + 1")
  endforeach()
endforeach()
message(STATUS "${found} programs of pages need a GPU")
