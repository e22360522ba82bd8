# SPDX-License-Identifier: Apache-2.0
# Runs scripts/check-error-texts (CHECK) on made-up trees, which it writes to FOLDER: one that is right, and others with
# one fault each.

set(errors [[
#error "install the headers of it first"
enum class ErrorCode : int {
  success = 0,
  invalid_value = 1,  ///< bad
};
static_assert(sizeof(int) == 4, "an int has four "
              "bytes");
]])
set(names [[
    case 209:
      return {
          "cudaErrorNoKernelImageForDevice",
          "The kernel has no code for this GPU, "
          "since it is too new"};
    case ErrorCode::success:
      return {"cudaSuccess", "no error"};
    case ErrorCode::invalid_value:
      return {"cudaErrorInvalidValue", "an argument is outside of what the call accepts"};
]])
set(rules [[
constexpr RuleText waits = {
    "a stream waits "
    "for none",
    "end it, and go on"};
]])
set(source [[
// throw UsageError("a text in a comment is none at all");
void capture(int count) {
  if (count < 0)
    throw UsageError(text::format(
        "{}: expected a count of `n` or more, "
        "and \"found\" {}",
        call, count));
  const char quote = '"';
  warn("The end of this graph is not known.");
  std::string text = text::format("Three of the inputs of this graph are {} dead and gone.", kind);
  throw DeadInputError(text, 3);
}
]])
set(reasons [[
void watch(std::string* why) {
  if (library == nullptr) {
    const std::string too_old = text::format("the driver is older than version {}", oldest);
    *why = "Calls cannot be watched: " + too_old;
  }
  give_up(findings, "The stream ended before the capture.");
  log("a text that no error has");
}
]])
set(nodes [[
  if (count == 0) refuse(begin, "a node of this kind needs one element; disable it instead");
  refuse(log, "a reason that no error has");
]])
set(tensors [[
  TORCH_CHECK(found.is_cpu(), name, ": tensors of one device were expected, found ", found, " here");
]])
set(status [[
inline const char* advice(int status) {
  switch (status) {
    case 1:
      return "make it before anything else, "
             "where it works";
    default:
      return "unknown";
  }
}
]])
set(tool [[
  std::fprintf(stderr, "command: the reports are in %s\n", file);
  found.missing.push_back({"own kernels", "the compiler was not found", "batches of copies"});
]])
set(cmake [[
message(FATAL_ERROR "expected the folder of ${name} "
  "in the toolkit")
]])
set(script [[
fail "the script $name cannot be run here"
]])
set(page [[
# Texts
### `1 cudaErrorInvalidValue`
Here `an argument is outside of what the call accepts`.
### `209 cudaErrorNoKernelImageForDevice`
The kernel has no
code for this GPU, since it is too new. The rule of this is: a stream waits for none; end it, and go on.
### `expected a count of n or more, and "found"`
### `is not known`
### `of the inputs of this graph`
### `driver is older than`
### `Calls cannot be watched`
### `needs one element`
### `of one device were expected`
### `make it before anything else, where`
### `The stream ended before`
### `install the headers`
### `an int has four bytes`
### `the reports are in`
### `the compiler was not found`
### `in the toolkit`
### `the script … cannot be run`
]])

# Writes the tree and runs the check; `code` is what it must return, `expected` what it must print.
function(expect code expected)
  file(REMOVE_RECURSE "${FOLDER}")
  file(WRITE "${FOLDER}/include/reprise/error.h" "${errors}")
  file(WRITE "${FOLDER}/src/backend/objects/error.cpp" "${names}")
  file(WRITE "${FOLDER}/src/backend/rules/capture_rules.cpp" "${rules}")
  file(WRITE "${FOLDER}/src/graph/capture.cpp" "${source}")
  file(WRITE "${FOLDER}/src/graph/watch.cpp" "${reasons}")
  file(WRITE "${FOLDER}/src/graph/node.cpp" "${nodes}")
  file(WRITE "${FOLDER}/src/libtorch/host/tensors.cpp" "${tensors}")
  file(WRITE "${FOLDER}/include/reprise/status.h" "${status}")
  file(WRITE "${FOLDER}/tools/reprise/main.cpp" "${tool}")
  file(WRITE "${FOLDER}/cmake/Find.cmake" "${cmake}")
  file(WRITE "${FOLDER}/scripts/lib.sh" "${script}")
  file(WRITE "${FOLDER}/docs/troubleshooting.md" "${page}")
  execute_process(COMMAND "${CHECK}" "${FOLDER}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(FIND "${output}" "${expected}" found)
  if(NOT result EQUAL code OR found EQUAL -1)
    message(FATAL_ERROR "expected ${code} and \"${expected}\"; found ${result} and:\n${output}")
  endif()
endfunction()

# With one text replaced by another, in the file that the variable `file` has.
function(expect_with file from to code expected)
  string(REPLACE "${from}" "${to}" ${file} "${${file}}")
  expect("${code}" "${expected}")
endfunction()

expect(0 "error texts: 15 texts, 15 headings, 2 codes")
expect_with(source "is not known" "has no end" 1
  "src/graph/capture.cpp:9: no heading of docs/troubleshooting.md is a part of \"The end of this graph has no end.\"")
expect_with(source "is not known" "has no end" 1 "docs/troubleshooting.md:8: no text of the sources contains \"is not known\"")
expect_with(source "expected a count" "expected at least a count" 1 "docs/troubleshooting.md:7: no text of the sources")
expect_with(source "Three of the inputs" "Three inputs" 1 "src/graph/capture.cpp:10: no heading")
expect_with(reasons "older than version" "not of version" 1 "src/graph/watch.cpp:3: no heading")
expect_with(reasons "Calls cannot be" "None of them is" 1 "src/graph/watch.cpp:4: no heading")
expect_with(reasons "The stream ended" "The stream was gone" 1 "src/graph/watch.cpp:6: no heading")
expect_with(nodes "needs one" "has no" 1 "src/graph/node.cpp:1: no heading")
expect_with(tensors "of one device were" "of it were" 1
  "src/libtorch/host/tensors.cpp:1: no heading of docs/troubleshooting.md is a part of \"…tensors of it were expected, found … here\"")
expect_with(status "anything else" "the capture" 1 "include/reprise/status.h:4: no heading")
expect_with(tool "the reports are" "what was found is" 1
  "tools/reprise/main.cpp:1: no heading of docs/troubleshooting.md is a part of \"command: what was found is in … \"")
expect_with(tool "compiler was" "compiler nvcc was" 1 "tools/reprise/main.cpp:2: no heading")
expect_with(errors "the headers" "what is needed" 1 "include/reprise/error.h:1: no heading")
expect_with(errors "an int has" "ints have" 1 "include/reprise/error.h:6: no heading")
expect_with(cmake "in the toolkit" "in CUDA's folder" 1 "cmake/Find.cmake:1: no heading")
expect_with(script "cannot be run" "is not allowed" 1 "scripts/lib.sh:1: no heading")
expect_with(source "DeadInputError(text, 3)" "DeadInputError(made_elsewhere())" 1
  "src/graph/capture.cpp:11: the text of this throw was not found")
expect_with(errors "invalid_value = 1," "invalid_value = 7," 1 "docs/troubleshooting.md: no heading \"7 cudaErrorInvalidValue\"")
expect_with(page "### `is not known`" "### `is not known`\n### `is not known`" 1 "a second heading \"is not known\"")
expect_with(page "### `is not known`" "### `is not`" 1 "expected a heading of ten characters or more")
expect_with(names "case 209" "case 210" 1 "no heading \"210 cudaErrorNoKernelImageForDevice\"")
expect_with(names "too new" "too old" 1 "lacks \"The kernel has no code for this GPU, since it is too old\"")
expect_with(rules "for none" "for all" 1 "docs/troubleshooting.md lacks \"a stream waits for all\"")
expect_with(rules "and go on" "or not" 1 "docs/troubleshooting.md lacks \"end it, or not\"")
foreach(beginning IN ITEMS "As above." "As 901: see there." "Likewise, of streams." "The same, in the report.")
  expect_with(page "### `is not known`" "### `is not known`\n\n${beginning}" 1
    "docs/troubleshooting.md:10: write out what this refers to, which the search may hide: \"${beginning}\"")
endforeach()
