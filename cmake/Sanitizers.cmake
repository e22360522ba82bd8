# SPDX-License-Identifier: Apache-2.0
# Builds the project with sanitizers. The first finding ends the program, so that a test cannot ignore it.
# The options of the runtimes are in the test presets.

# In the caller's directory and below. Sets there:
#   reprise_sanitizer_flags    what a program that links the library must be compiled and linked with
macro(reprise_use_sanitizers sanitizers)
  set(reprise_sanitizer_flags "")
  if(NOT "${sanitizers}" STREQUAL "")
    set(reprise_sanitizer_flags "-fsanitize=${sanitizers}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_compile_options(${reprise_sanitizer_flags})
    add_link_options(${reprise_sanitizer_flags})
    if("${sanitizers}" MATCHES "thread")
      _reprise_run_without_randomisation()
    endif()
  endif()
endmacro()

# ThreadSanitizer of GCC 12 and Clang 14 ends with "unexpected memory mapping" where the kernel randomises more than 28
# bits of an address (the default of Ubuntu 24.04, for one). There, tests run without randomisation of addresses.
macro(_reprise_run_without_randomisation)
  set(random_bits 0)
  if(EXISTS /proc/sys/vm/mmap_rnd_bits)
    file(READ /proc/sys/vm/mmap_rnd_bits random_bits)
    string(STRIP "${random_bits}" random_bits)
  endif()
  find_program(REPRISE_SETARCH setarch)
  mark_as_advanced(REPRISE_SETARCH)
  if(random_bits GREATER 28 AND REPRISE_SETARCH AND NOT DEFINED CMAKE_CROSSCOMPILING_EMULATOR)
    execute_process(COMMAND "${REPRISE_SETARCH}" -R true RESULT_VARIABLE setarch_result OUTPUT_QUIET ERROR_QUIET)
    if(setarch_result EQUAL 0)
      message(STATUS "ThreadSanitizer: tests run under setarch -R")
      set(CMAKE_CROSSCOMPILING_EMULATOR "${REPRISE_SETARCH};-R")
    else()
      message(STATUS "ThreadSanitizer: setarch -R is not permitted here; if tests end with \"unexpected memory "
                     "mapping\", lower vm.mmap_rnd_bits to 28")
    endif()
  endif()
endmacro()
