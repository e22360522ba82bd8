# SPDX-License-Identifier: Apache-2.0
# Installs a build into a prefix that was empty before: what an older version left there proves nothing.
#   BINARY_DIR, PREFIX

file(REMOVE_RECURSE "${PREFIX}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BINARY_DIR}" --prefix "${PREFIX}" COMMAND_ERROR_IS_FATAL ANY)
