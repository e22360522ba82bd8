# SPDX-License-Identifier: Apache-2.0
# Runs the suites of PROGRAM (suites_program.cpp) as tests of ctest, which tests/Suites.cmake and tests/GpuTests.cmake add, in FOLDER.

# A sanitizer that finds something in the suite Passes, sees Skips use no device, and has none after a test of Breaks.
file(WRITE "${FOLDER}/bin/compute-sanitizer" [[
#!/bin/sh
case "$*" in
  *Passes*) echo "========= ERROR SUMMARY: 1 error" ;;
  *Breaks*) echo "earlier work failed while it ran; the device is unusable now"
    echo "========= ERROR SUMMARY: 0 errors" ;;
  *Skips*) echo "========= Error: Target application terminated before first instrumented API call" ;;
  *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
exit 1
]])
file(CHMOD "${FOLDER}/bin/compute-sanitizer" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(ENV{PATH} "${FOLDER}/bin:$ENV{PATH}")
file(WRITE "${FOLDER}/CTestTestfile.cmake" "include(\"${CMAKE_CURRENT_LIST_DIR}/../Suites.cmake\")
include(\"${CMAKE_CURRENT_LIST_DIR}/../GpuTests.cmake\")
add_suites(\"${PROGRAM}\" some label 100)
add_suites(\"${FOLDER}/not_built\" other label 100)
")
function(expect found) # what is expected, in any order
  set(expected ${ARGN})
  list(SORT expected)
  list(SORT found)
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "expected\n  ${expected}\nfound\n  ${found}")
  endif()
endfunction()

function(expect_outcomes pattern) # of the tests whose names match
  execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${FOLDER}" -R "${pattern}" OUTPUT_VARIABLE output)
  string(REGEX MATCHALL "[a-zA-Z./]+ [.]+[* ]*(Passed|Failed|Skipped)" outcomes "${output}")
  list(TRANSFORM outcomes REPLACE " [.]+[* ]*" ": ")
  expect("${outcomes}" ${ARGN})
endfunction()

expect_outcomes("."
  "some.Passes: Passed" "some.Fails: Failed" "some.Skips: Skipped"
  "some.OutOfMemory: Passed" "some.With/GraphPools: Passed" "some.InnerNodes: Passed" "some.Breaks: Passed"
  "memcheck.some.InnerNodes: Passed" "memcheck.some.Breaks: Failed"
  "memcheck.some.Passes: Failed" "memcheck.some.Fails: Passed" "memcheck.some.Skips: Skipped"
  "memcheck.some.OutOfMemory: Passed" "memcheck.some.With/GraphPools: Passed")

set(ENV{NO_DEVICE} yes)
expect_outcomes("^some" "some.Passes: Skipped" "some.Fails: Skipped" "some.Skips: Skipped"
  "some.OutOfMemory: Skipped" "some.With/GraphPools: Skipped" "some.InnerNodes: Skipped" "some.Breaks: Skipped")

# Which of them run alone.
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${FOLDER}" --show-only=json-v1 OUTPUT_VARIABLE json)
string(JSON count LENGTH "${json}" tests)
math(EXPR last "${count} - 1")
set(alone "")
foreach(at RANGE ${last})
  string(JSON test GET "${json}" tests ${at})
  if(test MATCHES "\"RUN_SERIAL\"")
    string(JSON name GET "${test}" name)
    list(APPEND alone "${name}")
  endif()
endforeach()
expect("${alone}" some.OutOfMemory memcheck.some.OutOfMemory some.With/GraphPools memcheck.some.InnerNodes)
