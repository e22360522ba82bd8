# SPDX-License-Identifier: Apache-2.0
# Makes a package with Conan, from nothing but this project: there is no remote. A program then uses the package.
#   CONAN, WORK, SOURCE_DIR, CXX_COMPILER

file(REMOVE_RECURSE "${WORK}")
# Conan builds the consumer beside its recipe.
file(COPY "${CMAKE_CURRENT_LIST_DIR}/conan" "${CMAKE_CURRENT_LIST_DIR}/consumer" DESTINATION "${WORK}")
set(ENV{CONAN_HOME} "${WORK}/home")
set(ENV{CXX} "${CXX_COMPILER}")
execute_process(COMMAND "${CONAN}" profile detect COMMAND_ERROR_IS_FATAL ANY)
# Without CUDA, since what matters is the recipe.
execute_process(COMMAND "${CONAN}" create "${SOURCE_DIR}" --no-remote -s build_type=Debug
  --test-folder "${WORK}/conan" -c tools.build:jobs=2
  -c "tools.cmake.cmaketoolchain:extra_variables={'REPRISE_CUDA': 'OFF'}"
  WORKING_DIRECTORY "${WORK}" COMMAND_ERROR_IS_FATAL ANY)
