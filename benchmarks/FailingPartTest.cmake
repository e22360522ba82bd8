# SPDX-License-Identifier: Apache-2.0
# A benchmark of PROGRAM that fails is named in the output and in the file JSON; those after it are measured.
set(ENV{REPRISE_DEVICE} host)
set(ENV{REPRISE_HOST_MEMORY} 67108864)  # too little for one of the two
execute_process(COMMAND "${PROGRAM}" --rounds 1 --json "${JSON}" batch update
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 1 OR NOT output MATCHES "FAILED: batch: out of memory")
  message(FATAL_ERROR "expected exit code 1 and the benchmark that failed; found ${result}: ${output}")
endif()
file(READ "${JSON}" json)
string(JSON part GET "${json}" failed 0 part)
string(JSON failures LENGTH "${json}" failed)
if(NOT part STREQUAL "batch" OR NOT failures EQUAL 1)
  message(FATAL_ERROR "expected one failure, of batch; found ${json}")
endif()
string(JSON tables LENGTH "${json}" tables)
math(EXPR last "${tables} - 1")
string(JSON name GET "${json}" tables ${last} name)
string(JSON rows LENGTH "${json}" tables ${last} rows)
if(NOT name STREQUAL "update" OR rows EQUAL 0)
  message(FATAL_ERROR "expected the rows of update; found ${json}")
endif()
