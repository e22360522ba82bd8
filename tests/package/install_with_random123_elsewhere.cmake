# SPDX-License-Identifier: Apache-2.0
# Copies an installed package, with the configuration file of a library that was configured with Random123 in a folder
# of its own.
#   PREFIX      the package
#   RANDOM123   that folder
#   WORK        where to configure the library; the copy is WORK/prefix
#   SOURCE_DIR, GENERATOR, CXX_COMPILER, fmt_DIR

execute_process(COMMAND "${CMAKE_COMMAND}" --fresh -G "${GENERATOR}" -S "${SOURCE_DIR}" -B "${WORK}/library"
  "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${RANDOM123}" "-Dfmt_DIR=${fmt_DIR}"
  -DREPRISE_BUILD_TESTS=OFF -DREPRISE_BUILD_EXAMPLES=OFF -DREPRISE_BUILD_BENCHMARKS=OFF -DREPRISE_BUILD_TOOLS=OFF
  -DREPRISE_LIBTORCH=OFF -DREPRISE_CUDA=OFF COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE "${WORK}/prefix")
file(COPY "${PREFIX}/" DESTINATION "${WORK}/prefix")
file(GLOB_RECURSE config "${WORK}/prefix/*/reprise-config.cmake")
file(COPY_FILE "${WORK}/library/reprise-config.cmake" "${config}")
