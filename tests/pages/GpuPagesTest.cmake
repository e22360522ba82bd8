# SPDX-License-Identifier: Apache-2.0
# Fails if a page has a program that needs a GPU, and its test lacks the labels by which scripts/gpu-test finds it.
#   cmake -D FOLDER=build/dev/tests/pages -D GROUPS=cuda,cuda_tensors -D CTEST=ctest -P GpuPagesTest.cmake

string(REPLACE "," ";" groups "${GROUPS}")
set(found 0)
foreach(group IN LISTS groups)
  set(labels docs gpu)
  if(group STREQUAL "cuda_tensors")
    list(APPEND labels libtorch)
  endif()
  list(TRANSFORM labels REPLACE "(.+)" "--label-regex;^\\1$" OUTPUT_VARIABLE selection)
  execute_process(COMMAND "${CTEST}" --show-only ${selection} WORKING_DIRECTORY "${FOLDER}" OUTPUT_VARIABLE tests
    COMMAND_ERROR_IS_FATAL ANY)
  # Sources of groups that this build compiles; those that were only written are in new/.
  file(GLOB sources "${FOLDER}/*/${group}.cpp")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH page)
    cmake_path(GET page FILENAME page)
    if(NOT tests MATCHES ": docs\\.${page}\\.with_${group}\n")
      message(SEND_ERROR "docs.${page}.with_${group} is no test with the labels ${labels}: scripts/gpu-test leaves it out")
    endif()
    math(EXPR found "${found} + 1")
  endforeach()
endforeach()
message(STATUS "${found} programs of pages need a GPU")
