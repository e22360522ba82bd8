// SPDX-License-Identifier: Apache-2.0
#include "results.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "backend/reported_version.h"
#include "reprise/version.h"
#include "run.h"
#include "support.h"

namespace benchmarks {
namespace {

using Json = nlohmann::ordered_json;

#ifdef __clang__
constexpr const char* compiler = __VERSION__;
#else
constexpr const char* compiler = "GCC " __VERSION__;
#endif

Json json_of(const Cell& cell) {
  if (const auto* const number = std::get_if<double>(&cell)) return *number;
  if (const auto* const text = std::get_if<std::string>(&cell)) return *text;
  return nullptr;
}

std::string name_of_processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return {};
}

// The first line of a file; empty if it cannot be read.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Json machine_of(const Settings& settings) {
  utsname system{};
  uname(&system);
  return {{"device", settings.device.str()},
          {"device_name", settings.device.name()},
          {"processor", name_of_processor()},
          {"threads", std::thread::hardware_concurrency()},
          {"system", std::string(system.sysname) + " " + system.release},
          {"driver", first_line("/proc/driver/nvidia/version")},
          {"cuda_of_driver", reprise::backend::reported_version(dlopen("libcuda.so.1", RTLD_NOW))}};
}

}  // namespace

struct Results::Tables {
  Json list = Json::array(), failures = Json::array();
};

Results::Results() : tables_(std::make_unique<Tables>()) {}
Results::~Results() = default;

std::size_t Results::add_table(const std::string& name, const std::string& title, const std::vector<Column>& columns) {
  Json made = {{"name", name}, {"title", title}, {"columns", Json::array()}, {"rows", Json::array()}};
  for (const Column& each : columns)
    made["columns"].push_back({{"name", each.name}, {"unit", each.unit}, {"digits", each.digits}});
  tables_->list.push_back(std::move(made));
  return tables_->list.size() - 1;
}

void Results::add_row(std::size_t table, const std::vector<Cell>& cells) {
  Json row = Json::array();
  for (const Cell& each : cells) row.push_back(json_of(each));
  tables_->list[table]["rows"].push_back(std::move(row));
}

void Results::add_failure(const std::string& part, const std::string& error) {
  print("FAILED: {}: {}\n", part, error);
  tables_->failures.push_back({{"part", part}, {"error", error}});
}

bool Results::has_failures() const {
  return !tables_->failures.empty();
}

void Results::write(const std::string& path, const Program& program, const Settings& settings) const {
  const Json all = {{"program", program.name}, {"reprise", REPRISE_VERSION}, {"compiler", compiler},
                    {"nvcc", program.nvcc},    {"rounds", settings.rounds},  {"machine", machine_of(settings)},
                    {"tables", tables_->list}, {"failed", tables_->failures}};
  std::ofstream file(path);
  file << all.dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace benchmarks
