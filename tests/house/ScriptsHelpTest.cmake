# SPDX-License-Identifier: Apache-2.0
# Runs each script of bash in SCRIPTS with --help and -h, which print the comment at its head, and with words that some
# refuse.

# Runs `script` with the further arguments; `code` is what it must return, `expected` what it must print.
function(expect script code expected)
  execute_process(COMMAND "${SCRIPTS}/${script}" ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(FIND "${output}" "${expected}" found)
  if(NOT result EQUAL code OR found EQUAL -1)
    message(SEND_ERROR "${script} ${ARGN}: expected ${code} and \"${expected}\"; found ${result} and:\n${output}")
  endif()
endfunction()

file(GLOB scripts RELATIVE "${SCRIPTS}" "${SCRIPTS}/*")
foreach(script IN LISTS scripts)
  file(READ "${SCRIPTS}/${script}" text LIMIT 500)
  if(text MATCHES "^#!/usr/bin/env bash\n[^\n]*\n# ([^\n]*)")
    expect(${script} 0 "${CMAKE_MATCH_1}" --help)
    expect(${script} 0 "${CMAKE_MATCH_1}" -h)
  endif()
endforeach()

expect(setup-libtorch 1 "expected a version of torch, as 2.11.0; found --version" --version)
expect(check-libtorch-versions 1 "expected versions of torch, as 2.11.0; found 2.8.0 --all" 2.8.0 --all)
expect(setup-nvrtc 1 "expected no argument; found --force" --force)
expect(draw-pictures 1 "expected no argument; found --all" --all)
expect(install-dependencies 1 "expected --checks or no argument; found '--all'" --all)
expect(check-exports 2 "expected OBJECTS LIBRARY... [-- COMPONENT...]; found nothing")
