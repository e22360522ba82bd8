# SPDX-License-Identifier: Apache-2.0
# Compares the program of a page (PAGE, its first block of C) with the example (PROGRAM, without its first line).

file(READ "${PAGE}" page)
file(READ "${PROGRAM}" program)
string(FIND "${page}" "```c\n" begin)
math(EXPR begin "${begin} + 5")
string(SUBSTRING "${page}" ${begin} -1 block)
string(FIND "${block}" "```" end)
string(SUBSTRING "${block}" 0 ${end} block)
string(FIND "${program}" "\n" licence)
math(EXPR licence "${licence} + 1")
string(SUBSTRING "${program}" ${licence} -1 program)
if(NOT block STREQUAL program)
  message(FATAL_ERROR "expected the first block of C in ${PAGE} to be ${PROGRAM}; found\n${block}")
endif()
