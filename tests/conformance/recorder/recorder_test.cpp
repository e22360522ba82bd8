// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/recorder/recorder.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "backend/reported_version.h"
#include "tests/conformance/contracts/contract.h"
#include "tests/conformance/recorder/measured.h"

// Writes down what a GPU does; recorded_calls_test.cpp compares every device with it. To measure anew, with the GPU
// first among the devices, and two of them for the rows of another device:
//
//   tar -xzf tests/conformance/data/measured_h200.tar.gz -C FOLDER
//   REPRISE_RECORD_CALLS=FOLDER/capture_calls_h200.csv
//   REPRISE_RECORD_FURTHER_CALLS=FOLDER/capture_further_calls_h200.csv
//   REPRISE_RECORD_NODE_CALLS=FOLDER/capture_node_calls_h200.csv
//   reprise_conformance_tests --gtest_filter=Recorder.*
//   tar -C FOLDER -c . | gzip -9n >tests/conformance/data/measured_h200.tar.gz
//
// A call that crashes the driver ends the process. Its line "# begins: NAME" is then the last one of the file: run the
// recorder again, which goes on after it.

namespace reprise::backend::test {
namespace {

/// The versions of the driver and of the CUDA that it is for, as far as they can be found out.
std::string driver_text(const Device& device) {
  if (device.type() == DeviceType::host) return "no driver";
  std::string text = "driver ";
  std::ifstream module("/sys/module/nvidia/version");
  std::string version;
  text += std::getline(module, version) ? version : "of an unknown version";
  if (const int number = reported_version(dlopen("libcuda.so.1", RTLD_NOW)); number != 0)
    text += ", CUDA " + std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  return text;
}

constexpr const char* begins = "# begins: ";

/// The calls that a file has, with the one that ended the process of the recorder.
std::set<std::string> begun_in(const char* path) {
  std::set<std::string> names;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(begins)) names.insert(line.substr(std::string_view(begins).size()));
  return names;
}

/// Records the parts, each call's rows one after another; not the calls that the file has already.
void write_down(const char* path, const Device& device, const std::vector<Part>& parts) {
  const std::set<std::string> begun = begun_in(path);
  std::ofstream file(path, begun.empty() ? std::ios::trunc : std::ios::app);
  ASSERT_TRUE(file) << "cannot write " << path;
  std::size_t count = 0;
  for (const Part& part : parts) count += part.calls->size();
  if (begun.empty())
    file << "# " << device.name() << ", " << driver_text(device) << ", " << parts.front().calls->size()
         << " calls; the numbers are CUDA's: cudaError_t and cudaStreamCaptureStatus. See "
            "tests/conformance/recorder/recorder.h.\n"
         << csv_header() << '\n';
  std::size_t done = 0;
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const RecordedCall& call : *parts[i].calls) {
      ++done;
      const std::string name = call.name + " in part " + std::to_string(i);
      if (begun.contains(name)) continue;
      file << begins << name << std::endl;
      try {
        for (const Row& row : record(device.backend(), another_like(device), call, parts[i].situations))
          file << row << '\n';
      } catch (const std::runtime_error& error) {
        ADD_FAILURE() << call.name << ": " << error.what();
      }
      file.flush();
      if (done % 20 == 0 || done == count) std::printf("%zu of %zu calls\n", done, count);
    }
}

TEST(Recorder, WritesDownWhatTheFirstDeviceDoes) {
  const char* const path = std::getenv("REPRISE_RECORD_CALLS");
  if (path == nullptr) GTEST_SKIP() << "REPRISE_RECORD_CALLS names no file to write";
  const Device device = usable_devices().front();
  write_down(path, device, parts_of_the_interface(another_like(device) != nullptr));
}

TEST(Recorder, WritesDownWhatFurtherCallsDo) {
  const char* const path = std::getenv("REPRISE_RECORD_FURTHER_CALLS");
  if (path == nullptr) GTEST_SKIP() << "REPRISE_RECORD_FURTHER_CALLS names no file to write";
  const Device device = usable_devices().front();
  if (device.type() != DeviceType::cuda) GTEST_SKIP() << "further calls are CUDA's own, and the first device is none";
  write_down(path, device, parts_beside_it(another_like(device) != nullptr));
}

TEST(Recorder, WritesDownWhatCallsOnNodesDo) {
  const char* const path = std::getenv("REPRISE_RECORD_NODE_CALLS");
  if (path == nullptr) GTEST_SKIP() << "REPRISE_RECORD_NODE_CALLS names no file to write";
  write_down(path, usable_devices().front(), parts_on_nodes());
}

TEST(Recorder, ReadsWhatItWrote) {
  Row row;
  row.call = "event_record external s";
  row.situation = {CaptureMode::thread, Caller::other_capturing, StreamKind::blocking, true};
  row.result = 900;
  row.after = 2;
  row.end = 901;
  row.caller_after = 1;
  row.last = 709;
  std::ostringstream line;
  line << row;
  EXPECT_EQ(parse_row(line.str()), row);
  EXPECT_THROW(parse_row("too,few,fields"), std::runtime_error);
}

}  // namespace
}  // namespace reprise::backend::test
