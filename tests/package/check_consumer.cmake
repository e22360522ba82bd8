# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs a program that uses the library, and compares what it prints.
#   MODE       find_package or add_subdirectory
#   WORK       where to build; what was configured there before is forgotten
#   PREFIX     where the package is installed (find_package)
#   GIVEN      a folder with sources of fmt, as if it were not installed (add_subdirectory)
#   RANDOM123  ON if the program must find the copy of Random123
#   COMPONENT  the component of the package that the program uses (optional)
#   TORCH      the folder of the wheel of torch (the component libtorch)
#   KERNELS    ON if nvcc must compile the program, for ARCHITECTURES (optional)
#   PROGRAM, EXPECTED   the source and a file with its output
#   PROJECT    the project, by default consumer/, whose program has the name of the folder
#   SOURCE_DIR, GENERATOR, BUILD_TYPE, CXX_COMPILER, CXX_COMPILER_LAUNCHER, CXX_FLAGS

if(NOT PROJECT)
  set(PROJECT "${CMAKE_CURRENT_LIST_DIR}/consumer")
endif()
get_filename_component(name "${PROJECT}" NAME)
set(arguments
  "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
  "-DCONSUMER_PROGRAM=${PROGRAM}"
  "-DCONSUMER_COMPONENT=${COMPONENT}"
  "-DCONSUMER_RANDOM123=${RANDOM123}"
  "-DCONSUMER_KERNELS=${KERNELS}"
  "-DCONSUMER_ARCHITECTURES=${ARCHITECTURES}")
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
  list(APPEND arguments "-DREPRISE_SOURCE_DIR=${SOURCE_DIR}"
    -DBUILD_SHARED_LIBS=ON -DREPRISE_INSTALL=ON
    -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON "-DFETCHCONTENT_SOURCE_DIR_FMT=${GIVEN}/fmt")
endif()

execute_process(COMMAND "${CMAKE_COMMAND}" --fresh -G "${GENERATOR}" -S "${PROJECT}"
  -B "${WORK}/build" ${arguments} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK}/build" --parallel 2 COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK}/build/${name}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
file(READ "${EXPECTED}" expected)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "The program printed\n${output}but expected was\n${expected}")
endif()
