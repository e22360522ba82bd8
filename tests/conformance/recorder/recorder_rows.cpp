// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/conformance/contracts/contract.h"
#include "tests/conformance/recorder/measured.h"

// The rows of the recorder as lines of a file.

namespace reprise::backend::test {
namespace {

constexpr const char* mode_names[] = {"global", "thread_local", "relaxed"};
constexpr const char* caller_names[] = {"same",
                                        "other",
                                        "other_capturing",
                                        "other_device",
                                        "same_with_global",
                                        "same_with_thread_local",
                                        "same_with_relaxed",
                                        "other_with_global",
                                        "other_with_thread_local",
                                        "other_with_relaxed",
                                        "same_exchanged_to_thread_local",
                                        "same_exchanged_to_relaxed",
                                        "other_exchanged_to_thread_local",
                                        "other_exchanged_to_relaxed",
                                        "other_device_on_ours"};
constexpr const char* stream_names[] = {"blocking", "non_blocking", "green"};

template <std::size_t n>
int index_in(const char* const (&names)[n], const std::string& name) {
  for (std::size_t i = 0; i < n; ++i)
    if (name == names[i]) return static_cast<int>(i);
  throw std::runtime_error("the recorder: no such word: " + name);
}

}  // namespace

std::string Row::where() const {
  return call + ", " + mode_names[static_cast<int>(situation.mode)] + ", " +
         caller_names[static_cast<int>(situation.caller)] + " thread, " +
         stream_names[static_cast<int>(situation.stream)] + " stream, " +
         (situation.invalidated ? "invalidated" : "active");
}

std::string csv_header() {
  return "call,mode,thread,capturing_stream,phase,result,after,end,caller_after,caller_end,last";
}

std::ostream& operator<<(std::ostream& out, const Row& row) {
  const Situation& s = row.situation;
  return out << row.call << ',' << mode_names[static_cast<int>(s.mode)] << ','
             << caller_names[static_cast<int>(s.caller)] << ',' << stream_names[static_cast<int>(s.stream)] << ','
             << (s.invalidated ? "invalidated" : "active") << ',' << row.result << ',' << row.after << ',' << row.end
             << ',' << row.caller_after << ',' << row.caller_end << ',' << row.last;
}

Row parse_row(const std::string& line) {
  std::istringstream fields(line);
  std::array<std::string, 11> field;
  std::size_t count = 0;
  for (std::string one; std::getline(fields, one, ','); ++count)
    if (count < field.size()) field[count] = one;
  if (count != field.size()) throw std::runtime_error("the recorder: not a row of 11 fields: " + line);
  Row row;
  row.call = field[0];
  row.situation = {static_cast<CaptureMode>(index_in(mode_names, field[1])),
                   static_cast<Caller>(index_in(caller_names, field[2])),
                   static_cast<StreamKind>(index_in(stream_names, field[3])), field[4] == "invalidated"};
  row.result = std::stoi(field[5]);
  row.after = std::stoi(field[6]);
  row.end = std::stoi(field[7]);
  row.caller_after = std::stoi(field[8]);
  row.caller_end = std::stoi(field[9]);
  row.last = std::stoi(field[10]);
  return row;
}

std::filesystem::path measured_file(const std::string& name) {
  std::filesystem::path path = std::filesystem::path(MEASURED_FOLDER) / name;
  if (!exists(path)) throw std::runtime_error("no file of measurements: " + path.string());
  return path;
}

std::size_t calls_by_the_head(const std::string& file_name) {
  std::ifstream file(measured_file(file_name));
  std::string word, before;
  for (; file >> word && !word.starts_with("call,"); before = word)
    if (word == "calls;") return std::stoul(before);
  return 0;
}

std::vector<Row> measured(const std::string& file_name) {
  std::ifstream file(measured_file(file_name));
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#' && !line.starts_with("call,")) rows.push_back(parse_row(line));
  return rows;
}

Backend* another_like(const Device& device) {
  for (const Device& other : usable_devices())
    if (other.type() == device.type() && other != device) return &other.backend();
  return nullptr;
}

}  // namespace reprise::backend::test
