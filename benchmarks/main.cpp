// SPDX-License-Identifier: Apache-2.0
// Runs the benchmarks, all of them or those that are named, on the default device (REPRISE_DEVICE chooses another).

#include <charconv>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "support.h"

namespace benchmarks {
namespace {

struct Benchmark {
  const char* name;
  const char* what;
  void (*run)(const Settings&);
};

constexpr Benchmark all[] = {
    {"replay", "eager launches against replays and bare graph launches", replay},
    {"capture", "capture, instantiation, first replay, reset", capture},
    {"batch", "copies of many buffers, one by one against a batch", batch},
    {"allocator", "the caching allocator against the device runtime", allocator},
    {"random", "replays of a graph with and without random numbers", random_numbers},
    {"annotations", "scopes of annotate, in captures with and without annotations", annotations},
    {"liveness", "replays of a graph with and without a check of its inputs", liveness},
};

constexpr unsigned default_rounds = 20;

void show_usage(std::FILE* to) {
  std::string text = "usage: reprise_benchmarks [--rounds N] [NAME...]\n";
  for (const Benchmark& benchmark : all) text += fmt::format("  {:<11} {}\n", benchmark.name, benchmark.what);
  text += fmt::format("Without a name all of them. Each figure is the median of N rounds, {} if not given.\n",
                      default_rounds);
  std::fputs(text.c_str(), to);
}

const Benchmark* find(std::string_view name) {
  for (const Benchmark& benchmark : all)
    if (name == benchmark.name) return &benchmark;
  return nullptr;
}

bool parse_rounds(const char* text, unsigned& rounds) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, rounds);
  return error == std::errc{} && stop == end && rounds > 0 && rounds <= 1'000'000;
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "reprise_benchmarks: error: %s\n", why.c_str());
  show_usage(stderr);
  return 2;
}

int run(int argc, char** argv) {
  unsigned rounds = default_rounds;
  std::vector<const Benchmark*> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      show_usage(stdout);
      return 0;
    }
    if (argument == "--rounds") {
      if (i + 1 == argc || !parse_rounds(argv[++i], rounds))
        return refuse("--rounds: expected a whole number from 1 to 1000000");
    } else if (const Benchmark* benchmark = find(argument)) {
      chosen.push_back(benchmark);
    } else {
      return refuse(fmt::format("there is no benchmark \"{}\"", argument));
    }
  }
  if (chosen.empty())
    for (const Benchmark& benchmark : all) chosen.push_back(&benchmark);

  const Settings settings{reprise::default_device(), rounds};
  print("{} ({}), medians of {} interleaved rounds\n", settings.device.str(), settings.device.name(), rounds);
  for (const Benchmark* benchmark : chosen) {
    print("\n");
    benchmark->run(settings);
  }
  return 0;
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  try {
    return benchmarks::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise_benchmarks: failed: %s\n", error.what());
    return 1;
  }
}
