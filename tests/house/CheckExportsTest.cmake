# SPDX-License-Identifier: Apache-2.0
# Runs scripts/check-exports (CHECK) on a library, built by COMPILER in FOLDER, that hides a public function, exports
# functions of others, and lacks the interface for C.

file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
file(WRITE "${FOLDER}/library.cpp" [[
#define EXPORT __attribute__((visibility("default")))
namespace other { EXPORT void exported() {} }
namespace fmt { struct Type {}; }
namespace reprise {
void warn(int) {}
EXPORT void devices() {}
EXPORT void format(fmt::Type) {}
}
]])
execute_process(COMMAND "${COMPILER}" -fPIC -fvisibility=hidden -c library.cpp -o library.o
  WORKING_DIRECTORY "${FOLDER}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${COMPILER}" -shared library.o -o library.so
  WORKING_DIRECTORY "${FOLDER}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CHECK}" "${FOLDER}" "${FOLDER}/library.so" RESULT_VARIABLE result OUTPUT_VARIABLE output)
if(NOT result EQUAL 1)
  message(FATAL_ERROR "expected the library to be refused; exit status ${result}:\n${output}")
endif()
foreach(line IN ITEMS
    "exported, but not of reprise: other::exported()\n"
    "exported, with a type of another library: reprise::format(fmt::Type)\n"
    "public, but hidden: mark it with REPRISE_EXPORT: reprise::warn(int)\n"
    "public, but not exported: reprise_version\n")
  string(FIND "${output}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected the line\n  ${line}found\n${output}")
  endif()
endforeach()
if(output MATCHES "devices")
  message(FATAL_ERROR "expected nothing about what is exported as it must be; found\n${output}")
endif()
