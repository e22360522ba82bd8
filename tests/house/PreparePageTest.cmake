# SPDX-License-Identifier: Apache-2.0
# Runs docs/site/prepare_page.awk (SCRIPT) on made-up pages, which it writes to FOLDER.

# The lines after the first two arguments as the page NAME, for which it must print `expected`.
function(expect name expected)
  list(JOIN ARGN "\n" page)
  file(WRITE "${FOLDER}/${name}" "${page}\n")
  execute_process(COMMAND awk -f "${SCRIPT}" "${FOLDER}/${name}" RESULT_VARIABLE result OUTPUT_VARIABLE output)
  if(NOT result EQUAL 0 OR NOT output STREQUAL "${expected}\n")
    message(FATAL_ERROR "${page}\nexpected\n${expected}\nfound (exit status ${result})\n${output}")
  endif()
endfunction()

expect(README.md "# Home" "# Home")
expect(My-page.md "# Title {#my-page}" "# Title")
expect(a.md "## A few words {#a-a-few-words}\n## A few words {#a-a-few-words-1}" "## A few words" "## A few words")
expect(a.md "### expected \\_\\_global\\_\\_ of \\<x\\>, 1 … {#a-expected-__global__-of-x-1-}"
  "### `expected __global__ of <x>, 1 …`")
expect(a.md "### the \"file\" of \\--a {#a-the-file-of---a}" "### `the \"file\" of --a`")
expect(a.md "[b](@ref b), [home](@ref index), [x](@ref b-some-words)[y](@ref a-here)"
  "[b](b.md), [home](../README.md), [x](b.md#some-words)[y](#here)")
expect(a.md "the code of b: [f(x) there](@ref b) and `[f](b.md)`" "the code of b: [`f(x)` there](b.md) and `[f](b.md)`")
expect(a.md "see `x.h` and [far](https://example.org/a.md)"
  "see [`x.h`](../src/graph/x.h) and [far](https://example.org/a.md)")
expect(a.md "```cpp\n# define f [b](b.md)\n```" "```cpp" "# define f [b](b.md)" "```")
expect(a.md "- <b>`x` and y</b>, <b>z</b> of `a ** b`" "- **`x` and y**, **z** of `a ** b`")
expect(a.md "**bold** and **`x`, and" "**bold** and **`x`, and")
expect(README.md "to cite, x" "[to cite](CITATION.cff), [x](src/x.h)")
expect(README.md "![A graph](pictures/a.svg) of x" "![A graph](docs/pictures/a.svg) of [x](src/x.h)")
# What a block of code needs.
set(fold "@htmlonly[block]<details class=\"code-before\"><summary>Declared before this</summary>@endhtmlonly")
set(end "@htmlonly[block]</details>@endhtmlonly")
expect(a.md "${fold}\n\n```cpp\nint x = 1;\n# y [b](b.md)\n```\n\n${end}\n\n```cpp\n++x\n```"
  "<!-- code: needs cuda\nint x = 1\\;\n# y [b](b.md)\n-->\n```cpp\n++x\n```")
expect(a.md "<!-- code: prints -->\n```text\n1\n```" "<!-- code: prints -->" "```text" "1" "```")
expect(a.md "<!-- code:\nx = 0\n-->\ntext" "<!-- code:" "x = 0" "-->" "text")
expect(a.md "<!-- code: throws -->\n```cpp\nx\n```" "<!-- code: throws -->" "```cpp" "x" "```")
# Links over two lines. A page is one argument here: CMake does not divide a list within brackets.
expect(a.md "see [input liveness](@ref b-x), [c d](@ref c)\n`[e`\nf"
  "see [input\nliveness](b.md#x), [c\n  d](c.md)\n`[e`\nf")
expect(a.md "from [0, 1\nto\n```cpp\na[0\nb](b.md)\n```\nan end [of"
  "from [0, 1\nto\n```cpp\na[0\nb](b.md)\n```\nan end [of")
