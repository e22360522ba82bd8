# SPDX-License-Identifier: Apache-2.0
# Included by ctest: makes the suites of programs tests of ctest. Each is one process: one for each test would take longer
# than the tests, and after an error of a CUDA device nothing works in its process any more.

# What a suite prints that skips all of its tests; those that failed would be listed at the end. And a program that does
# so before the first one, which GoogleTest counts as passed.
set(skips_all "\n\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$")
set(skips_before "Global test environment set-up\\.\n[^\n]*: Skipped\n")

# Adds each suite of a program, as <prefix>.<suite>. None if the program was not built.
function(add_suites program prefix label limit) # further properties
  if(NOT EXISTS "${program}")
    return()
  endif()
  execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\n[^ \n]+\\.[ \n]" suites "\n${listed}")
  foreach(suite IN LISTS suites)
    string(REGEX REPLACE "^\n(.+)\\..$" "\\1" suite "${suite}")
    set(name "${prefix}.${suite}")
    set(command "${program}" "--gtest_filter=${suite}.*")
    add_test("${name}" ${command})
    set_tests_properties("${name}" PROPERTIES LABELS "${label}" TIMEOUT ${limit}
      SKIP_REGULAR_EXPRESSION "${skips_all};${skips_before}" ${ARGN})
    if(COMMAND suite_added)
      suite_added("${name}" "${suite}" ${command})
    endif()
  endforeach()
endfunction()
