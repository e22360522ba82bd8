# SPDX-License-Identifier: Apache-2.0
# The page of figures: one run in the folder FIGURES, where host.json stands for the device's, too, becomes a page with
# every table and plot; a folder without such files is refused with their names.
execute_process(COMMAND /usr/bin/python3 -c "import matplotlib" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  message("skipped: /usr/bin/python3 has no matplotlib (the Debian package python3-matplotlib)")
  return()
endif()
set(folder "${FIGURES}/page")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
configure_file("${FIGURES}/host.json" "${FIGURES}/device.json" COPYONLY)
execute_process(COMMAND "${SCRIPT}" "${FIGURES}" --output "${folder}" RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result)
  message(FATAL_ERROR "expected a page; found: ${errors}")
endif()
file(READ "${folder}/performance.md" page)
if(page MATCHES "(^|\n)(@[^\n]+@?)" OR page MATCHES "()({{[^\n]*)")
  message(FATAL_ERROR "the page still has ${CMAKE_MATCH_2}")
endif()
set(none_of_2 "is not faster by 1 % or more in any of the 2 rows")
foreach(text IN ITEMS "\\| straight \\| 5000 \\|" "100[ \n]kernels[ \n][0-9.]+ us" "\\| processor \\| [^|]"
    "\n\\| network \\| eager, C\\+\\+, us \\| default, us \\| graphed, Python, us \\| bare, us \\|\n"
    "\n\\| a large network \\| 900\\.0 \\| 105\\.0 \\| 210\\.0 \\| 100\\.0 \\|\n"
    "\n\\| a large network \\| 900\\.0 \\| 400\\.0 \\| 103\\.0 \\| 1200 \\| 120\\.0 \\| 100\\.0 \\|\n"
    "\nlibtorch's allocator is faster, by 1 % or more, in 1 of 5 rows: 16 threads \\(50 ns beside 100\\)\\.\n"
    "\nPython's captured step ${none_of_2}\\.\n"
    "\nThese are steps on 2 x a made-up GPU, with torch 0\\.0\\.\n"
    "\n\\| a small network \\| reprise \\| 99\\.0 \\| 0\\.990 \\|\n")
  if(NOT page MATCHES "${text}")
    message(FATAL_ERROR "the page has no ${text}: ${page}")
  endif()
endforeach()
file(GLOB plots "${folder}/pictures/performance-*.svg")
list(LENGTH plots count)
string(REGEX MATCHALL "pictures/performance-[a-z]+\\.svg" links "${page}")
list(LENGTH links linked)
if(NOT count EQUAL 5 OR NOT linked EQUAL 5)
  message(FATAL_ERROR "expected 5 plots in the page; found ${count} files, ${linked} links")
endif()

# A part that failed is left out, in one line.
file(READ "${FIGURES}/tensors.json" tensors)
string(JSON count LENGTH "${tensors}" tables)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${tensors}" tables ${i} name)
  if(name STREQUAL "tensor_allocator")
    string(JSON tensors SET "${tensors}" tables ${i} rows "[]")
  endif()
endforeach()
string(JSON tensors SET "${tensors}" failed "[{\"part\": \"allocator\", \"error\": \"\"}]")
set(partial "${FIGURES}/partial")
file(MAKE_DIRECTORY "${partial}")
file(WRITE "${partial}/tensors.json" "${tensors}")
configure_file("${FIGURES}/host.json" "${partial}/device.json" COPYONLY)
configure_file("${FIGURES}/host.json" "${partial}/host.json" COPYONLY)
execute_process(COMMAND "${SCRIPT}" "${partial}" --output "${partial}" RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result)
  message(FATAL_ERROR "expected a page without the part that failed; found: ${errors}")
endif()
file(READ "${partial}/performance.md" page)
if(NOT page MATCHES "in a program with libtorch:\n\nThis part failed in the run [^\n]+\n\n## "
    OR page MATCHES "libtorch's allocator is faster" OR NOT page MATCHES "\n\nThe machine of this run has one GPU\\.")
  message(FATAL_ERROR "expected one line for the part that failed; found: ${page}")
endif()

execute_process(COMMAND "${SCRIPT}" "${folder}" --output "${folder}" RESULT_VARIABLE result ERROR_VARIABLE errors)
if(NOT result OR NOT errors MATCHES "found no device.json")
  message(FATAL_ERROR "expected an error that names device.json; found ${result}: ${errors}")
endif()
