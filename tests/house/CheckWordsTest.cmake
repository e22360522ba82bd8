# SPDX-License-Identifier: Apache-2.0
# Runs scripts/check-words (CHECK) on a tree, in FOLDER, with such words in a comment, in names and in a text. The lines
# that it must refuse end in "refused"; it must refuse no other.

file(REMOVE_RECURSE "${FOLDER}")
cmake_path(GET CHECK PARENT_PATH scripts)
file(COPY "${CHECK}" "${scripts}/lib.sh" DESTINATION "${FOLDER}/scripts")
file(WRITE "${FOLDER}/src/names.cpp" [[
int calls_told = 0;  // refused
int Masked = 0, retold = 0, asking_price = 0;  // refused
int masked_tell_tale = 0;  // refused
int hearth = 0, basket = 0, mending = 0;
const char* text = "nobody";  // refused
]])
file(WRITE "${FOLDER}/src/comments.h" [[
// Gives the block back; refused
// Released after the last use.
// Work is given to the stream; refused
// Work is submitted to the stream, and given to kernels.
/// Those of the other device; refused
/// A full stop ends what came before.
/// It is checked after that, too; refused
int of_devices = 0;  ///< Of all devices; refused
int count = 0;  // Also of other devices; refused
int other = 0;  // From now on counted; refused
// Often counted, italic, thatched, elsewhere.
// The next line is of the same comment, so that it may begin with
// those words.
]])
file(WRITE "${FOLDER}/tests/unit/names_test.cpp" [[
TEST(Streams, EndInAnyonesCapture) {}  // refused
TEST(Streams, EndInAnyCapture) {}
int give_back = 0;  // refused
int given_name = 0;
]])
file(WRITE "${FOLDER}/tests/CMakeLists.txt" "# Asked for by users; refused\n")
foreach(arguments IN ITEMS "init;--quiet" "add;.")
  execute_process(COMMAND "${GIT}" ${arguments} WORKING_DIRECTORY "${FOLDER}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()

execute_process(COMMAND "${FOLDER}/scripts/check-words" RESULT_VARIABLE result OUTPUT_VARIABLE output)
if(NOT result EQUAL 1)
  message(FATAL_ERROR "expected words to be refused; exit status ${result}:\n${output}")
endif()
foreach(file IN ITEMS src/names.cpp src/comments.h tests/unit/names_test.cpp tests/CMakeLists.txt)
  set(number 0)
  file(STRINGS "${FOLDER}/${file}" lines)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    string(FIND "${output}" "${file}:${number}:" at)
    if(line MATCHES "refused$" AND at EQUAL -1)
      message(FATAL_ERROR "expected line ${number} of ${file} to be refused:\n  ${line}\nfound\n${output}")
    elseif(NOT line MATCHES "refused$" AND NOT at EQUAL -1)
      message(FATAL_ERROR "expected line ${number} of ${file} to pass:\n  ${line}\nfound\n${output}")
    endif()
  endforeach()
endforeach()
