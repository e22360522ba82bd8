# SPDX-License-Identifier: Apache-2.0
# Runs write_page.awk on made-up pages, which it writes to FOLDER.

# Writes a page of these lines, and sets `result` and `said` to what the script makes of it.
function(read_page)
  list(JOIN ARGN "\n" page)
  file(WRITE "${FOLDER}/page.md" "${page}\n")
  execute_process(COMMAND awk -v name=page -v "folder=${FOLDER}" -f "${CMAKE_CURRENT_LIST_DIR}/write_page.awk" page.md
    WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(result "${result}" PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

# A page of the lines after the first argument, for which it must print exactly that.
function(expect_said expected)
  read_page(${ARGN})
  if(NOT result EQUAL 0 OR NOT said STREQUAL expected)
    message(FATAL_ERROR "${ARGN}: expected\n${expected}found (exit status ${result})\n${said}")
  endif()
endfunction()

# A page of the lines after the first argument, which must be refused with a text that begins like that.
function(expect_refused expected)
  read_page(${ARGN})
  string(FIND "${said}" "page.md:${expected}" at)
  if(result EQUAL 0 OR NOT at EQUAL 0)
    message(FATAL_ERROR "${ARGN}: expected the error\npage.md:${expected}\nfound (exit status ${result})\n${said}")
  endif()
endfunction()

# A page of the lines after the first argument, whose source for the host device must contain that.
function(expect_source expected)
  read_page(${ARGN})
  file(READ "${FOLDER}/host.cpp" source)
  string(FIND "${source}" "${expected}" at)
  if(NOT result EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "${ARGN}: expected\n${expected}\nfound (exit status ${result}, ${said})\n${source}")
  endif()
endfunction()

expect_said("" "A page without code")
expect_said("group host 2\n" "```cpp" "int x" "```" "text" "```cpp" "++x" "```")
expect_said("group host 1\ngroup libtorch 1\ngroup cuda 1\ngroup cuda_tensors 1\n"
  "```cpp" "```" "<!-- code: needs libtorch -->" "```cpp" "```" "<!-- code: needs cuda -->" "```cpp" "```"
  "<!-- code: needs libtorch, needs cuda -->" "```cpp" "```")
expect_said("left out 2 it is a fragment\n"
  "text" "<!-- code: not compiled, because it is a fragment -->" "```cpp" "```")
expect_said("group host 0\n" "<!-- code:" "int hidden = 0" "-->" "text")

expect_source("struct A {\n  int x = 1\n}\nvoid f() {\n}\n\nstatic void run()"
  "```cpp" "struct A {" "  int x = 1" "}" "void f() {" "}" "```")
expect_source("static void run() {\n#line 2 \"page.md\"\nfor (int i : all) {\n}\nf([&] {\n})\n}"
  "```cpp" "for (int i : all) {" "}" "f([&] {" "})" "```")
expect_source("{\n#line 2 \"page.md\"\nint hidden = 0\n#line 5 \"page.md\"\nint shown = 0\n}\n"
  "<!-- code: own scope" "int hidden = 0" "-->" "```cpp" "int shown = 0" "```")
expect_source(".prints = R\"output(one\ntwo\n)output\"}"
  "```cpp" "print()" "```" "<!-- code: prints -->" "```text" "one" "two" "```")

expect_refused("1: expected a mark of code: needs libtorch, needs cuda, own scope"
  "<!-- code: needs cuba -->" "```cpp" "```")
expect_refused("1: expected a mark of code" "<!-- code: not compiled, because -->" "```cpp" "```")
expect_refused("1: a mark of code without a block" "<!-- code: needs cuda -->" "text" "```cpp" "```")
expect_refused("1: a mark of code without a block" "<!-- code: needs cuda -->")
expect_refused("1: the mark prints belongs before a block ```text" "<!-- code: prints -->" "```cpp" "```")
expect_refused("1: the mark prints belongs before a block ```text, after one" "<!-- code: prints -->" "```text" "```")
expect_refused("2: a block that does not end" "text" "```cpp" "int x")
expect_refused("1: a block that does not end" "<!-- code:" "int x")
expect_refused("2: the braces of this block do not match" "```cpp" "f([&] {" "```")
expect_refused("1: expected ```cpp at the beginning of the line" "```c++" "```")
expect_refused("1: expected ```cpp at the beginning of the line" "  ```cpp" "  ```")
