# SPDX-License-Identifier: Apache-2.0
# Runs scripts/check-misuse (CHECK) on made-up trees, which it writes to FOLDER: one that is right, and others with one
# fault each.

set(header [=[
#pragma once
namespace reprise {
namespace detail {
void hidden();
}
/// Not a function: call();
enum class Kind { one, two };
class Thing {
 public:
  explicit Thing(int size = 1);
  Thing(const Thing&) = delete;
  ~Thing();
  int size() const noexcept { return size_; }
  operator bool() const;
  template <class F>
  void run(F&& f) const {
    if (size() > 0) f();
  }

 private:
  void secret();
  int size_ = 0;
};
struct Plain {
  int twice() const { return 2 * value; }
  int value = 0;
};
[[nodiscard]] Plain make(const char* text = "f(x);", Kind kind = Kind::one);
}  // namespace reprise
]=])
set(libtorch_header [=[
#pragma once
namespace reprise::libtorch {
namespace detail {
void hidden();
}
template <class M>
class Holder;
template <class Result, class... Args>
class Holder<Result(Args...)> : public Base {
 public:
  explicit Holder(int size);
  Result call(Args... arguments) { return made_(arguments...); }

 private:
  int made_ = 0;
};
template <class M>
Holder(M, int size) -> Holder<M>;
}  // namespace reprise::libtorch
]=])
set(test [[
TEST_F(ThingTest,
       IsRefused) {}
]])
set(functions "Plain::twice" "Thing::Thing" "Thing::operator bool" "Thing::run" "Thing::size" "Thing::~Thing" "make"
  "libtorch::Holder::Holder" "libtorch::Holder::call")

# The table with `cell` in the first cell of the row of `name`; with rows for `rows`.
function(write_tree cell name)
  set(table "")
  foreach(row IN LISTS ARGN)
    set(first any)
    if(row STREQUAL name)
      set(first "${cell}")
    endif()
    string(APPEND table "| `${row}` | ${first} | any | any, missing | any | any | any | any | any | any |\n")
  endforeach()
  string(APPEND table "\n- `any`: allowed.\n- `missing`: to be written.\n")
  file(REMOVE_RECURSE "${FOLDER}")
  file(WRITE "${FOLDER}/include/reprise/thing.h" "${header}")
  file(WRITE "${FOLDER}/include/reprise/libtorch/holder.h" "${libtorch_header}")
  file(WRITE "${FOLDER}/tests/thing_test.cpp" "${test}")
  file(WRITE "${FOLDER}/tests/unit/misuse/table.md" "${table}")
endfunction()

# Runs the check; `code` is what it must return, `text` what it must say.
function(expect code text)
  execute_process(COMMAND "${CHECK}" "${FOLDER}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(FIND "${output}" "${text}" found)
  if(NOT result EQUAL code OR found EQUAL -1)
    message(FATAL_ERROR "expected ${code} and \"${text}\"; found ${result} and:\n${output}")
  endif()
endfunction()

write_tree("`ThingTest.IsRefused`, any" make ${functions})
expect(0 "misuse: 9 functions, 1 cells with tests, 9 missing")

set(without_run ${functions})
list(REMOVE_ITEM without_run "Thing::run")
write_tree(any make ${without_run})
expect(1 "Thing::run of thing.h has no row")

set(without_call ${functions})
list(REMOVE_ITEM without_call "libtorch::Holder::call")
write_tree(any make ${without_call})
expect(1 "libtorch::Holder::call of libtorch/holder.h has no row")

write_tree(any make ${functions} "Thing::gone")
expect(1 "a row for Thing::gone, which no public header declares")

write_tree(any make ${functions} make)
expect(1 "two rows for make")

write_tree("`ThingTest.IsNotThere`" make ${functions})
expect(1 "make: no source has the test ThingTest.IsNotThere")

write_tree(any make ${functions})
file(APPEND "${FOLDER}/tests/unit/misuse/table.md" "- `other`: as `ThingTest.IsRefused` and `ThingTest.IsNowhere` show.\n")
expect(1 "an explanation: no source has the test ThingTest.IsNowhere")

write_tree(unexplained make ${functions})
expect(1 "make: \"unexplained\" is neither a test nor a code that is explained")

write_tree("any | any" make ${functions})
expect(1 "make has 10 cells instead of 9")

write_tree(any make ${functions})
file(WRITE "${FOLDER}/include/reprise/c_api.h" "int reprise_add(int a);\nint reprise_drop(int a); /* as reprise_add() */\n")
file(WRITE "${FOLDER}/tests/c_api/tests.c" "EXPECT(reprise_add(1) == 2);\n")
expect(1 "no test in tests/c_api calls reprise_drop")
file(APPEND "${FOLDER}/tests/c_api/tests.c" "EXPECT(reprise_drop(1) == 0);\n")
expect(0 "misuse: 9 functions")
