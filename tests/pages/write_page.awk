# SPDX-License-Identifier: Apache-2.0
# Makes sources of the ```cpp blocks of a page; CONTRIBUTING.md, "A block of code in a page", says what a page can say.
#
#   awk -v name=NAME -v folder=FOLDER -f write_page.awk PAGE
#
# Blocks are grouped by what they need: host (nothing), libtorch, cuda (nvcc, cuBLAS and a CUDA device), cuda_tensors
# (libtorch and a CUDA device). A group becomes FOLDER/<group>.cpp: includes at the top, types and functions in a
# namespace, the statements of all blocks in one function, which run_pages.cpp calls. Printed is, a line each,
#
#   group <group> <number of its blocks>
#   left out <line> <reason>
#
# A mark that cannot be understood is an error, with its line.

function die(line, text) {
  printf "%s:%d: %s\n", FILENAME, line, text > "/dev/stderr"
  failed = 1
  exit 1
}

# --- marks ------------------------------------------------------------------------------------------------------------

function forget_mark() {
  marked = lines = visible = 0
  needs_libtorch = needs_cuda = own_scope = prints = 0
  throws = reason = ""
}

function read_mark(words, line,    i, count, part) {
  forget_mark()
  marked = line
  gsub(/^ +| +$/, "", words)
  if (words ~ /^not compiled, because ./) {
    reason = substr(words, length("not compiled, because ") + 1)
    return
  }
  count = split(words, part, /, */)
  for (i = 1; i <= count; ++i) {
    if (part[i] == "needs libtorch") needs_libtorch = 1
    else if (part[i] == "needs cuda") needs_cuda = 1
    else if (part[i] == "own scope") own_scope = 1
    else if (part[i] == "prints") prints = 1
    else if (part[i] ~ /^throws [A-Za-z_:]+$/) throws = substr(part[i], 8)
    else die(line, "expected a mark of code: needs libtorch, needs cuda, own scope, throws EXCEPTION, prints (before " \
             "```text), or not compiled, because REASON; found \"" part[i] "\"")
  }
}

function keep_line(text, line) { content[++lines] = text; number[lines] = line }

# --- blocks -----------------------------------------------------------------------------------------------------------

# Adds a line to a part of the group's source. The compiler counts lines as the page does.
function add(part, text, line) {
  if (line != next_line[part, group]) source[part, group] = source[part, group] "#line " line " \"" FILENAME "\"\n"
  source[part, group] = source[part, group] text "\n"
  next_line[part, group] = line + 1
}

# Adds a line that is not on the page.
function insert(part, text) {
  source[part, group] = source[part, group] text "\n"
  next_line[part, group] = 0
}

function add_include(text) {
  if (!((group, text) in included)) source["includes", group] = source["includes", group] text "\n"
  included[group, text] = 1
}

# True for the first line of a type, a function, an alias or a using-directive.
function begins_definition(text) {
  return text ~ /^(struct|class|enum|union|template|namespace|using|#)/ ||
         (text ~ /^[A-Za-z_][A-Za-z0-9_:<>,&* ]*[ *&][A-Za-z_][A-Za-z0-9_]*\([^;]*\)( const)? \{/ &&
          text !~ /^(else|return|co_return) /)
}

function add_code(text, line,    bare) {
  if (text ~ /^#include /) {
    add_include(text)
    return
  }
  if (depth == 0 && !defining) {
    defining = begins_definition(text)
    in_main = text ~ /^int main\(\) \{$/
    if (in_main) sub(/main/, "main_" ++mains, text)
  }
  bare = text
  gsub(/\\./, "", bare)
  gsub(/"[^"]*"|'[^']*'/, "", bare)
  sub(/\/\/.*/, "", bare)
  depth += gsub(/\{/, "{", bare) - gsub(/\}/, "}", bare)
  if (in_main && depth == 0) insert("definitions", "return 0;")
  add(defining ? "definitions" : "statements", text, line)
  if (depth == 0 && (bare ~ /[;}][ \t]*$/ || text ~ /^#/)) {
    defining = 0
    if (in_main) insert("statements", "reprise::pages::expect_success(main_" mains "());")
    in_main = 0
  }
}

function end_block(    i) {
  if (reason != "") {
    printf "left out %d %s\n", marked, reason
    forget_mark()
    return
  }
  if (prints) die(marked, "the mark prints belongs before a block ```text; found a block of code")
  group = needs_libtorch ? (needs_cuda ? "cuda_tensors" : "libtorch") : (needs_cuda ? "cuda" : "host")
  if (!(group in blocks)) groups[++group_count] = group
  blocks[group] += visible
  depth = defining = in_main = 0
  if (own_scope) insert("statements", "{")
  if (throws != "") insert("statements", "reprise::pages::expect_throw<" throws ">([&] {")
  for (i = 1; i <= lines; ++i) add_code(content[i], number[i])
  if (depth != 0) die(number[1], "the braces of this block do not match")
  if (throws != "") insert("statements", "}, \"" throws "\");")
  if (own_scope) insert("statements", "}")
  forget_mark()
}

# --- the page ---------------------------------------------------------------------------------------------------------

BEGIN { forget_mark() }

state == "mark" {
  if (/^-->/) state = ""
  else keep_line($0, FNR)
  next
}

state == "cpp" || state == "output" || state == "other" {
  if (!/^```/) {
    if (state == "cpp") keep_line($0, FNR)
    if (state == "output") output[group] = output[group] $0 "\n"
    next
  }
  if (state == "cpp") end_block()
  state = ""
  next
}

/^<!-- code:/ {
  if (marked && !lines) die(marked, "a mark of code without a block after it")
  if (marked) end_block()
  words = substr($0, length("<!-- code:") + 1)
  if (!sub(/-->.*/, "", words)) state = "mark"
  read_mark(words, FNR)
  next
}

# The program in C of docs/c-api.md is an example, and compared with it (tests/c_api); docs/from-cuda.md begins with what
# is replaced.
/^```c$/ && name !~ /^(c_api|from_cuda)$/ { die(FNR, "expected ```cpp at the beginning of the line; found " $0) }
/^[ \t]+```cpp|^```(c\+\+|cxx|cuda|cu)$/ { die(FNR, "expected ```cpp at the beginning of the line; found " $0) }

/^```cpp$/ {
  state = "cpp"
  visible = 1
  opened = FNR
  next
}

/^```/ {
  opened = FNR
  state = "other"
  if (marked && !prints && lines) end_block()
  else if (marked && !prints) die(marked, "a mark of code without a block ```cpp after it")
  if (!prints) next
  if ($0 != "```text" || !group_count)
    die(marked, "the mark prints belongs before a block ```text, after one of ```cpp")
  state = "output"
  forget_mark()
  next
}

/[^ \t]/ && marked {
  if (!lines) die(marked, "a mark of code without a block after it")
  end_block()
}

END {
  if (failed) exit 1
  if (state != "") die(state == "mark" ? marked : opened, "a block that does not end")
  if (marked && !lines) die(marked, "a mark of code without a block after it")
  if (marked) end_block()
  for (i = 1; i <= group_count; ++i) {
    group = groups[i]
    printf "group %s %d\n", group, blocks[group]
    file = folder "/" group ".cpp"
    printf "// Written by tests/pages/write_page.awk from %s\n", FILENAME > file
    printf "%s\n#include \"tests/pages/page.h\"\n\n", source["includes", group] > file
    printf "namespace page_%s_%s {\n\n%s", group, name, source["definitions", group] > file
    printf "\nstatic void run() {\n%s}\n\n", source["statements", group] > file
    printf "static const reprise::pages::Registration registration(\n" > file
    printf "    {.group = \"%s\", .name = \"%s\", .run = &run", group, name > file
    if (group in output) printf ", .prints = R\"output(%s)output\"", output[group] > file
    printf "});\n\n}  // namespace page_%s_%s\n", group, name > file
  }
}
