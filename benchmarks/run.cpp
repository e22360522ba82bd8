// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <charconv>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "results.h"

namespace benchmarks {
namespace {

constexpr unsigned default_rounds = 20;

void show_usage(std::FILE* to, const Program& program) {
  std::string text = fmt::format("usage: {} [--rounds N] [--json FILE] [NAME...]\n", program.name);
  for (const Benchmark& benchmark : program.benchmarks)
    text += fmt::format("  {:<11} {}\n", benchmark.name, benchmark.what);
  text += fmt::format(
      "Without a name all of them. Each figure is the median of N rounds, {} if not given.\n--json writes the figures, "
      "and what they were measured on, to a file, too.\n",
      default_rounds);
  std::fputs(text.c_str(), to);
}

const Benchmark* find(const Program& program, std::string_view name) {
  for (const Benchmark& benchmark : program.benchmarks)
    if (name == benchmark.name) return &benchmark;
  return nullptr;
}

bool parse_rounds(const char* text, unsigned& rounds) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, rounds);
  return error == std::errc{} && stop == end && rounds > 0 && rounds <= 1'000'000;
}

int refuse(const Program& program, const std::string& why) {
  std::fprintf(stderr, "%s: error: %s\n", program.name, why.c_str());
  show_usage(stderr, program);
  return 2;
}

int run(const Program& program, int argc, char** argv) {
  unsigned rounds = default_rounds;
  std::string json;
  std::vector<const Benchmark*> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      show_usage(stdout, program);
      return 0;
    }
    if (argument == "--rounds") {
      if (i + 1 == argc || !parse_rounds(argv[++i], rounds))
        return refuse(program, "--rounds: expected a whole number from 1 to 1000000");
    } else if (argument == "--json") {
      if (i + 1 == argc) return refuse(program, "--json: expected the path of a file");
      json = argv[++i];
    } else if (const Benchmark* benchmark = find(program, argument)) {
      chosen.push_back(benchmark);
    } else {
      return refuse(program, fmt::format("there is no benchmark \"{}\"", argument));
    }
  }
  if (chosen.empty())
    for (const Benchmark& benchmark : program.benchmarks) chosen.push_back(&benchmark);

  // Not after minutes of measuring. What is in the file stays until the figures replace it.
  if (!json.empty() && !std::ofstream(json, std::ios::app))
    return refuse(program, fmt::format("--json: expected the path of a file that can be written; found \"{}\"", json));

  Results results;
  const Settings settings{reprise::default_device(), rounds, &results};
  print("{} ({}), medians of {} interleaved rounds\n", settings.device.str(), settings.device.name(), rounds);
  for (const Benchmark* benchmark : chosen) {
    print("\n");
    try {
      benchmark->run(settings);
    } catch (const std::exception& error) {
      results.add_failure(benchmark->name, error.what());
    }
  }
  if (!json.empty()) results.write(json, program, settings);
  return results.has_failures() ? 1 : 0;
}

}  // namespace

int main_of(const Program& program, int argc, char** argv) {
  try {
    return run(program, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: failed: %s\n", program.name, error.what());
    return 1;
  }
}

}  // namespace benchmarks
