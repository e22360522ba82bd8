# SPDX-License-Identifier: Apache-2.0
# Compares the table of examples in README.md (README) with the folders of examples/ (EXAMPLES): each example that it names
# is a folder, and each folder of an example is named.

file(STRINGS "${README}" lines ENCODING UTF-8)
set(in_table FALSE)
set(named "")
foreach(line IN LISTS lines)
  if(line MATCHES "^\\| in `examples/` \\|")
    set(in_table TRUE)
  elseif(in_table AND NOT line MATCHES "^\\|")
    break()
  elseif(in_table AND line MATCHES "^\\|([^|]*`[^|]*)\\|")
    string(REGEX MATCHALL "`[a-z_]+`" names "${CMAKE_MATCH_1}")
    string(REPLACE "`" "" names "${names}")
    list(APPEND named ${names})
  endif()
endforeach()

file(GLOB folders RELATIVE "${EXAMPLES}" "${EXAMPLES}/*")
list(REMOVE_ITEM folders CMakeLists.txt support)
list(SORT named)
list(SORT folders)
if(NOT named STREQUAL folders)
  message(FATAL_ERROR "README.md names the examples ${named}; expected were the folders of examples/, ${folders}")
endif()
