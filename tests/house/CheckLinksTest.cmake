# SPDX-License-Identifier: Apache-2.0
# Runs scripts/check-links (CHECK) on made-up pages, which it writes to FOLDER.

set(layout [[
<tab type="user" url="@ref first" title="First"/>
<tab type="user" url="@ref contributing" title="Contributing"/>
<tab type="user" url="@ref changelog" title="Changes"/>
<tab type="user" url="@ref security" title="Security"/>
]])
set(first [[
# The first
See [below](#a-long-heading), [the second heading](#a-long-heading-1) and [home](../README.md).
Not a link: `[x](nowhere.md)`.
```cpp
f[0](nowhere);
```
## A `long` heading
## A long heading
]])

# Writes the pages and runs the check; `code` is what it must return, `expected` what it must print.
function(expect code expected)
  file(REMOVE_RECURSE "${FOLDER}")
  file(WRITE "${FOLDER}/README.md" "# Home\n[first](docs/first.md#the-first) [far](https://example.org/x.md)\n")
  file(WRITE "${FOLDER}/CONTRIBUTING.md" "# Contributing\n")
  file(WRITE "${FOLDER}/CHANGELOG.md" "# Changes\n")
  file(WRITE "${FOLDER}/SECURITY.md" "# Security\n")
  file(WRITE "${FOLDER}/docs/first.md" "${first}")
  file(WRITE "${FOLDER}/docs/site/layout.xml" "${layout}")
  execute_process(COMMAND "${CHECK}" --tree "${FOLDER}" RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  string(FIND "${output}" "${expected}" found)
  if(NOT result EQUAL code OR found EQUAL -1)
    message(FATAL_ERROR "expected ${code} and \"${expected}\"; found ${result} and:\n${output}")
  endif()
endfunction()

function(expect_with file from to code expected)
  string(REPLACE "${from}" "${to}" ${file} "${${file}}")
  expect("${code}" "${expected}")
endfunction()

expect(0 "links: 4 checked, 0 lead nowhere")
expect_with(first "../README.md" "README.md" 1 "docs/first.md: there is no docs/README.md")
expect_with(first "heading-1" "heading-2" 1 "docs/first.md: docs/first.md has no heading #a-long-heading-2")
expect_with(first "# The first" "# Another" 1 "README.md: docs/first.md has no heading #the-first")
expect_with(layout "@ref first" "@ref second" 1 "docs/site/layout.xml: expected first once, for docs/first.md")
expect_with(layout "@ref first" "@ref second" 1 "docs/site/layout.xml: second names no page")

# HTML pages.
function(expect_html text code expected)
  file(REMOVE_RECURSE "${FOLDER}")
  file(WRITE "${FOLDER}/index.html" "<p><a class=\"x\" id=\"here\"></a><img src=\"index.html\"/>${text}</p>\n")
  execute_process(COMMAND "${CHECK}" "${FOLDER}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(FIND "${output}" "${expected}" found)
  if(NOT result EQUAL code OR found EQUAL -1)
    message(FATAL_ERROR "expected ${code} and \"${expected}\"; found ${result} and:\n${output}")
  endif()
endfunction()

expect_html("<a href=\"#here\">x</a> <a href=\"index.html#here\">x</a> <a href=\"https://example.org\">x</a>" 0
  "links: 2 checked, 0 lead nowhere")
expect_html("<a href=\"#there\">x</a>" 1 "index.html: index.html has no heading #there")
expect_html("<code>[a](@ref b)</code><pre>\n@section b c\n</pre> the @section" 0 "links: 1 checked, 0 lead nowhere")
expect_html("<p>[a](@ref b)" 1 "index.html: Doxygen left this as text: ")
expect_html("\n@subsection b c" 1 "index.html: Doxygen left this as text: @subsection b c")
expect_html("<a href=\"other.html\">x</a>" 1 "index.html: there is no other.html")
