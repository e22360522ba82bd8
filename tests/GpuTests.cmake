# SPDX-License-Identifier: Apache-2.0
# Included by ctest in a build with REPRISE_CUDA_TESTS: which suites run alone on the device, and what runs under
# compute-sanitizer.

set(limit 400) # seconds for one process; beside others, the recorded calls of other threads take more than 150
# Suites that take nearly all memory of the device: also by an allocation that fails in the end, with expandable segments.
# Nothing may run beside them.
set(take_memory "(^|/)(CudaTensorFailures|CudaTensorsWithoutMemory|FailedCapture|GraphWorkspaces|OtherCaches|OutOfMemory)(/|$)")
# Suites that compare how much memory of the device is free. Under memcheck, where a failed test does not count, others
# may run beside them.
string(CONCAT compare_memory "(^|/)(BreakingWalk|CachingAllocatorEnd|CachingAllocatorTest|Cublas"
  "|[A-Za-z]*FailureWalk|GraphPools|MemoryContract|MemoryOfGraphs|PrivatePools|StressCacheKeys)(/|$)")
# What memcheck is not for. The kernels of KernelFailureContract write where they must not: that is what it tests.
# RecordedCallsOfAnotherDevice and FurtherCallsOfAnotherDevice measure results of calls and launch next to nothing; memcheck
# makes them 100 times slower. The examples would be children of their tests, which are not looked at.
# FailureWalk and BreakingWalk make every call of every scenario fail or break, which takes minutes; so do the many
# processes of RepriseDoctor, at which memcheck does not look.
string(CONCAT not_for_memcheck "KernelFailureContract|CallsOfAnotherDevice|FailureWalk|BreakingWalk|RepriseDoctor"
  "|^example\\.|^libtorch\\.")
# Where four or more processes under memcheck use one GPU, some launches of graphs with conditional nodes fail (CUDA 13.0,
# driver 580): with cudaErrorIllegalAddress or cudaErrorLaunchFailure, and without a message of the tool. The device is
# unusable then for the rest of the suite. So suites that launch control flow run alone under memcheck; the example
# conjugate_gradient is not run, and random programs have no control flow.
string(CONCAT conditional "(^|/)(Compare|ConditionalContract|Cublas|InnerAnnotations|InnerNodes|MemoryOfGraphs"
  "|ProgressMarksOfGraphs|RandomChildrenInLoops|StreamOrderedMemory|TimeReplay|WorkAroundABody)(/|$)|ControlFlow")

# Adds a test that passes if a tool of compute-sanitizer finds nothing. The tests that run under it may fail: the tool
# makes the host wait for every launch, and then what shows that something does not wait cannot pass. But they must have
# a device: if it becomes unusable, the tool has nothing to find in the tests that follow.
#   --report-api-errors no                    many tests see to it that CUDA refuses a call; that is no error of theirs
#   --target-processes application-only       tests of what ends a process run it as a child
#   --launch-timeout 0                        some suites call the driver late, or in children alone
function(add_sanitized tool name) # command...
  add_test("${tool}.${name}" compute-sanitizer --tool ${tool} --report-api-errors no
    --target-processes application-only --launch-timeout 0 ${ARGN})
  set_tests_properties("${tool}.${name}" PROPERTIES LABELS sanitize TIMEOUT ${limit}
    PASS_REGULAR_EXPRESSION "(ERROR|RACECHECK) SUMMARY: 0 (errors|hazards)"
    FAIL_REGULAR_EXPRESSION "the device is unusable now"
    SKIP_REGULAR_EXPRESSION "Target application terminated before first instrumented API call")
endfunction()

# Called for each suite that was added.
function(suite_added name suite) # command...
  if(suite MATCHES "${take_memory}|${compare_memory}")
    set_tests_properties("${name}" PROPERTIES RUN_SERIAL TRUE)
  endif()
  if(NOT name MATCHES "${not_for_memcheck}")
    add_sanitized(memcheck "${name}" ${ARGN})
    if(suite MATCHES "${take_memory}|${conditional}")
      set_tests_properties("memcheck.${name}" PROPERTIES RUN_SERIAL TRUE)
    endif()
  endif()
endfunction()

# Adds what runs under compute-sanitizer besides suites, from a folder of a build.
function(add_sanitized_programs build)
  set(train_digits "${build}/bin/train_digits")
  set(differential "${build}/tests/differential/reprise_differential")
  # The kernels of the library, and those of train_digits. Racecheck sees shared memory alone.
  foreach(tool IN ITEMS racecheck initcheck)
    add_sanitized(${tool} batches "${build}/tests/reprise_unit_tests" "--gtest_filter=Batch*")
    add_sanitized(${tool} train_digits "${train_digits}" --epochs 1)
  endforeach()
  # No initcheck of random programs: it does not see what the memset nodes of a graph write (CUDA 13.0, driver 580;
  # random program 17, where nothing but such a node writes what it complains of, and all results are right).
  add_sanitized(racecheck differential "${differential}" --programs 50 --no-control-flow)
  # Where a graph frees memory, allocates again at the same address, and does not free the second block, memcheck takes the
  # size of the second block for that of the first (CUDA 13.0; plain CUDA programs, too) and reports writes that are right.
  add_sanitized(memcheck differential "${differential}" --programs 100 --no-control-flow
    --without "memory left by a replay")
  foreach(example IN ITEMS train_digits multi_stream changing_inputs many_shapes eager_parts cublas_mlp nccl_allreduce)
    if(EXISTS "${build}/bin/${example}")
      add_sanitized(memcheck ${example} "${build}/bin/${example}")
    endif()
  endforeach()
endfunction()
