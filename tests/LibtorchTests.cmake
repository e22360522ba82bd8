# SPDX-License-Identifier: Apache-2.0
# Tests of the layer for libtorch: programs of folders of tests/libtorch. Their tests have the label libtorch.

# With -DREPRISE_LIBTORCH_TESTS=OFF the programs are there, but are no part of `all`.
option(REPRISE_LIBTORCH_TESTS "Build the tests of the component libtorch with everything else" ON)

# All programs of tests.
add_custom_target(reprise_libtorch_test_programs)

function(reprise_set_libtorch_program program)
  target_include_directories(${program} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${program} PRIVATE reprise::libtorch_distributed reprise::libtorch_optim reprise::compare
    reprise::timings GTest::gmock GTest::gtest_main)
  reprise_set_test_program(${program} SIZE 16) # it takes 15 s to read headers of torch
  if(NOT REPRISE_CUDA_TESTS)
    reprise_precompile(libtorch_tests ${program} <torch/torch.h> <gmock/gmock.h> <gtest/gtest.h> <reprise/reprise.h>)
  endif()
  add_dependencies(reprise_libtorch_test_programs ${program})
  if(NOT REPRISE_LIBTORCH_TESTS)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()

# Sources of folders of tests/libtorch, and single ones; objects of what reprise_add_libtorch_objects() compiled.
function(reprise_find_libtorch_sources result)
  set(sources "")
  foreach(each IN LISTS ARGN)
    if(TARGET reprise_${each}_objects)
      list(APPEND sources "$<TARGET_OBJECTS:reprise_${each}_objects>")
    elseif(each MATCHES "\\.cpp$")
      list(APPEND sources "libtorch/${each}")
    else()
      file(GLOB in_folder CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/libtorch/${each}/*.cpp")
      list(APPEND sources ${in_folder})
    endif()
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Compiles sources of several programs once: tests for both devices, and the file of a device, both_devices/device/*.cpp.
function(reprise_add_libtorch_objects name) # folders of tests/libtorch
  reprise_find_libtorch_sources(sources ${ARGN})
  add_library(reprise_${name}_objects OBJECT ${sources})
  reprise_set_libtorch_program(reprise_${name}_objects)
endfunction()

function(reprise_add_libtorch_program name) # folders of tests/libtorch, and sources in them
  reprise_find_libtorch_sources(sources ${ARGN})
  add_executable(reprise_${name}_tests ${sources})
  reprise_set_libtorch_program(reprise_${name}_tests)
endfunction()

# On the host device.
function(reprise_add_libtorch_tests name) # as reprise_add_libtorch_program()
  reprise_add_libtorch_program(${name} ${ARGN})
  set(program reprise_${name}_tests)
  if(NOT REPRISE_LIBTORCH_TESTS)
    return()
  endif()
  # In one process each, since libtorch takes most of a second to load: with two simulated devices and the search for
  # races, which prints what it finds; and by the scheduler that runs one operation at a time.
  add_test(NAME ${name}.with_two_devices COMMAND ${program})
  set_tests_properties(${name}.with_two_devices PROPERTIES LABELS libtorch TIMEOUT ${reprise_test_limit}
    ENVIRONMENT "REPRISE_HOST_DEVICES=2;REPRISE_DEVICE=host;REPRISE_HOST_RACES=1"
    FAIL_REGULAR_EXPRESSION "warning: race")
  # Without walks, in which one thread makes one call after another fail.
  add_test(NAME ${name}.by_steps COMMAND ${program}
    "--gtest_filter=-CachedCallablesThatFail.*:GraphedCallablesThatFailed.*")
  set_tests_properties(${name}.by_steps PROPERTIES LABELS libtorch TIMEOUT ${reprise_test_limit}
    ENVIRONMENT "REPRISE_HOST_DEVICES=2;REPRISE_DEVICE=host;REPRISE_HOST_SCHEDULER=1")
endfunction()

# A program that uses nothing of the component but a header: without headers of libtorch, for it compiles quickly.
function(reprise_add_linked_libtorch_test)
  add_executable(reprise_linked_libtorch_test libtorch/linked/linked_test.cpp)
  reprise_set_libtorch_program(reprise_linked_libtorch_test)
  if(REPRISE_LIBTORCH_TESTS)
    add_test(NAME libtorch.is_linked COMMAND reprise_linked_libtorch_test)
    set_tests_properties(libtorch.is_linked PROPERTIES LABELS libtorch TIMEOUT ${reprise_test_limit})
  endif()
endfunction()

# On CUDA devices. Where there is none the program skips its tests.
function(reprise_add_cuda_tensor_tests name) # as reprise_add_libtorch_program()
  reprise_add_libtorch_program(${name} ${ARGN})
  if(REPRISE_CUDA_TESTS)
    reprise_add_suites(reprise_${name}_tests libtorch.${name} libtorch)
  elseif(REPRISE_LIBTORCH_TESTS)
    add_test(NAME ${name} COMMAND reprise_${name}_tests)
    set_tests_properties(${name} PROPERTIES LABELS libtorch TIMEOUT ${reprise_test_limit}
      SKIP_REGULAR_EXPRESSION "Skipped\nthere is no CUDA device")
  endif()
endfunction()
