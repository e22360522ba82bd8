# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs a program that uses the library, and compares what it prints.
#   MODE       find_package or add_subdirectory
#   WORK       where to build; what was configured there before is forgotten
#   PREFIX     where the package is installed (find_package)
#   COMPONENT  the component of the package that the program uses (optional)
#   TORCH      the folder of the wheel of torch (the component libtorch)
#   SHARED     ON to build the library as a shared one (add_subdirectory)
#   PROGRAM, EXPECTED   the source and a file with its output; or
#   MARKDOWN   a page whose first ```cpp block is the source, and whose first ```text block after it is the output
#   SOURCE_DIR, GENERATOR, BUILD_TYPE, CXX_COMPILER, CXX_COMPILER_LAUNCHER, CXX_FLAGS

function(first_block text language out_block out_rest)
  set(fence "\n```")
  string(FIND "${text}" "${fence}${language}\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${MARKDOWN} has no block ```${language} where one is expected")
  endif()
  string(LENGTH "${fence}${language}\n" fence_length)
  math(EXPR begin "${begin} + ${fence_length}")
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "${fence}\n" end)
  if(end EQUAL -1)
    message(FATAL_ERROR "${MARKDOWN}: a block ```${language} does not end")
  endif()
  string(SUBSTRING "${text}" 0 ${end} block)
  string(SUBSTRING "${text}" ${end} -1 rest)
  set(${out_block} "${block}\n" PARENT_SCOPE)
  set(${out_rest} "${rest}" PARENT_SCOPE)
endfunction()

if(MARKDOWN)
  file(READ "${MARKDOWN}" page)
  first_block("${page}" cpp source page)
  first_block("${page}" text expected page)
  set(PROGRAM "${WORK}/example.cpp")
  file(WRITE "${PROGRAM}" "${source}")
else()
  file(READ "${EXPECTED}" expected)
endif()

set(arguments
  "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
  "-DCONSUMER_PROGRAM=${PROGRAM}"
  "-DCONSUMER_COMPONENT=${COMPONENT}")
if(CXX_COMPILER_LAUNCHER)
  list(APPEND arguments "-DCMAKE_CXX_COMPILER_LAUNCHER=${CXX_COMPILER_LAUNCHER}")
endif()
if(TORCH)
  list(APPEND arguments "-DREPRISE_TORCH=${TORCH}")
endif()
if(MODE STREQUAL "find_package")
  # The package must need nothing but threads: what the library was built with is not found here.
  list(APPEND arguments "-DCMAKE_PREFIX_PATH=${PREFIX}" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
else()
  list(APPEND arguments "-DREPRISE_SOURCE_DIR=${SOURCE_DIR}" "-DBUILD_SHARED_LIBS=${SHARED}"
    -DREPRISE_GROUP_SOURCES=ON)
endif()

execute_process(COMMAND "${CMAKE_COMMAND}" --fresh -G "${GENERATOR}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer"
  -B "${WORK}/build" ${arguments} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" --parallel 2 COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK}/build/consumer" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "The program printed\n${output}but expected was\n${expected}")
endif()
