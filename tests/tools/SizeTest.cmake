# SPDX-License-Identifier: Apache-2.0
# Runs scripts/size (SCRIPT, in a project of its own in FOLDER) on two small commits, whose size is known.

find_program(clang_format clang-format-14)
if(NOT clang_format)
  message("skipped: clang-format-14 was not found")
  return()
endif()

function(git)
  execute_process(COMMAND "${GIT}" -c user.name=test -c user.email=test@example.org ${ARGN}
    WORKING_DIRECTORY "${FOLDER}" COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
file(COPY "${SCRIPT}" DESTINATION "${FOLDER}/scripts")
file(WRITE "${FOLDER}/.clang-format" "BasedOnStyle: Google\n")
file(WRITE "${FOLDER}/include/reprise/plan.h" [[
// A comment.
struct PlanOptions {
  int depth = 1;  /* another */
  const char* name = "// none";
  int sum() const { return depth; }
};

class Forward;
enum class Mode { fast, slow };
]])
file(WRITE "${FOLDER}/src/graph/plan.cpp" "int a;\n\n/* of\ntwo lines */\nint b;\n")
git(init --quiet)
git(add .)
git(commit --quiet -m first)
file(WRITE "${FOLDER}/src/graph/plan.cpp" "void f() { for (;;) { f(); } }  // formatted, it has 5 lines\n")
file(WRITE "${FOLDER}/include/reprise/detail/inner.h" "struct Inner : Plan<int> {};\n")

execute_process(COMMAND "${FOLDER}/scripts/size" HEAD RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
foreach(line "include +7 +8 +\\+1" "src/graph +2 +5 +\\+3" "core +9 +13 +\\+4" "all +9 +13 +\\+4" "options +2 +2 +\\+0"
    "public headers +1 +1 +\\+0" "types in headers +2 +3 +\\+1")
  if(NOT output MATCHES "\n +${line}\n")
    message(SEND_ERROR "expected a line \"${line}\"; found (${result}):\n${output}")
  endif()
endforeach()
execute_process(COMMAND "${FOLDER}/scripts/size" nowhere RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 1 OR NOT output MATCHES "expected a commit, found nowhere")
  message(SEND_ERROR "expected 1 and a text that names the commit; found ${result} and:\n${output}")
endif()
