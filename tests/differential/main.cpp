// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "reprise/device.h"
#include "reprise/host_device.h"
#include "tests/differential/run.h"
#include "tests/support/host_environment.h"
#include "text/format.h"

// Random programs, run eagerly and captured and replayed: both must leave the same memory.

namespace reprise::differential {
namespace {

struct Options {
  std::uint64_t programs = 2000;
  std::uint64_t seed = 1;
  std::string device;
  std::string against;
  std::string print;
  Limits limits;
  std::string without;
  std::uint64_t memory_mib = 512;
  std::uint64_t progress = 500;
  bool fail_first = false;
  bool by_steps = false;
  std::uint64_t scheduler_seed = 0;
};

// The seed of a program: another one for each.
std::uint64_t scheduler_seed(const Options& options, const Program& program) {
  return options.scheduler_seed + program.seed;
}

// The host devices begin anew with the program's own order.
Verdict examine_in_order(const Options& options, std::uint64_t scheduler_seed, const Program& program,
                         const Device& device, const std::optional<Device>& against) {
  if (options.by_steps) run_by_steps(scheduler_seed);
  return examine(program, device, against);
}

Options parse(CLI::App& app, int argc, char** argv) {
  Options options;
  app.add_option("--programs", options.programs, "how many")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first program; the others follow")->capture_default_str();
  app.add_option("--device", options.device, "where they run; not given: the default device");
  app.add_option("--against", options.against, "another device, where they must leave the same memory");
  app.add_option("--max-operations", options.limits.max_operations, "of a program, waits not counted")
      ->check(CLI::Range(1, 200))
      ->capture_default_str();
  app.add_option("--devices", options.limits.devices,
                 "how many devices of the kind a program uses; as many host devices there are")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  app.add_option("--scheduler-seed", options.scheduler_seed,
                 "host devices run one operation at a time, in an order of this seed and the program's")
      ->each([&options](const std::string&) { options.by_steps = true; });
  app.add_option("--memory", options.memory_mib, "MiB of each host device, which programs exhaust")
      ->check(CLI::Range(std::int64_t{64}, std::int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--progress", options.progress, "say how many have run after each so many")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_flag("--fail-first", options.fail_first,
               "each program is first captured with an operation that throws, which abandons the capture");
  app.add_flag(
      "--no-control-flow", [&options](std::int64_t) { options.limits.control_flow = false; },
      "programs have child graphs, but no conditional nodes");
  app.add_option("--without", options.without, "leave out programs with this, which the end of a run lists")
      ->check(CLI::IsMember(all_features()));
  app.add_option("--print", options.print, "write the source of the first program to this file, and run nothing");
  app.parse(argc, argv);
  return options;
}

void explain(const Options& options, const Program& program, const Verdict& verdict, const Device& device,
             const std::optional<Device>& against) {
  std::printf("program %llu: %s\n", static_cast<unsigned long long>(program.seed), verdict.text.c_str());
  const std::uint64_t seed = scheduler_seed(options, program);
  if (options.by_steps)
    std::printf("scheduler seed %llu; again: --programs 1 --seed %llu --scheduler-seed %llu\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(program.seed),
                static_cast<unsigned long long>(options.scheduler_seed));
  // After some errors of a CUDA device nothing works in its process any more: every part of the program would fail.
  if (verdict.failure == Failure::exception && device.type() == DeviceType::cuda) {
    std::printf("not shrunk\n%s", print_source(program).c_str());
    return;
  }
  const Program small = shrink(program, [&](const Program& candidate) {
    return examine_in_order(options, seed, candidate, device, against).failure == verdict.failure;
  });
  std::printf("shrunk from %zu to %zu operations: %s\n%s", program.operations.size(), small.operations.size(),
              examine_in_order(options, seed, small, device, against).text.c_str(), print_source(small).c_str());
}

int run(const Options& options) {
  if (!options.print.empty()) {
    std::ofstream file(options.print);
    file << print_source(generate(options.seed, options.limits)) << std::flush;
    return file.good() ? 0 : 1;
  }
  const Device device = options.device.empty() ? default_device() : Device::parse(options.device);
  std::optional<Device> against;
  if (!options.against.empty()) against = Device::parse(options.against);
  const RaceReports reports;
  unsigned differ = 0, races = 0;
  std::uint64_t all = 0, ran = 0, left_out = 0;
  std::map<std::string, std::uint64_t> having;
  constexpr unsigned most_explained = 3;
  for (; ran < options.programs && differ + races < most_explained; ++ran) {
    const Program program = generate(options.seed + ran, options.limits);
    const std::set<std::string> has = features(program);
    if (has.contains(options.without)) {
      ++left_out;
      continue;
    }
    if (options.fail_first) {
      if (options.by_steps) run_by_steps(scheduler_seed(options, program));
      (void)examine(program, device, {}, program.seed % 2 == 0 ? Kind::free_beside : Kind::end_stream);
    }
    const Verdict verdict = examine_in_order(options, scheduler_seed(options, program), program, device, against);
    for (const std::string& feature : has) ++having[feature];
    all = all * 31 + verdict.digest;
    if (verdict.failure == Failure::race) ++races;
    if (verdict.failure == Failure::differs || verdict.failure == Failure::exception) ++differ;
    if (verdict.failure != Failure::none) explain(options, program, verdict, device, against);
    if ((ran + 1) % options.progress == 0) std::printf("%llu programs\n", static_cast<unsigned long long>(ran + 1));
    std::fflush(stdout);
  }
  for (const std::string& feature : all_features())
    std::printf("%7llu programs with %s\n", static_cast<unsigned long long>(having[feature]), feature.c_str());
  if (left_out != 0) std::printf("%7llu programs left out\n", static_cast<unsigned long long>(left_out));
  std::printf(
      "%s", text::format("digest {:016x}\n{} programs on {}{}: eager and replayed left the same memory, {} differ, "
                         "{} races\n",
                         all, ran - left_out, device.str(), against ? " against " + against->str() : "", differ, races)
                .c_str());
  return differ + races == 0 ? 0 : 1;
}

}  // namespace
}  // namespace reprise::differential

int main(int argc, char** argv) {
  using namespace reprise::differential;
  CLI::App app("Random programs, run eagerly and captured and replayed: both must leave the same memory.");
  Options options;
  try {
    options = parse(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  try {
    reprise::HostDeviceOptions host;
    host.check_races = true;
    host.memory_bytes = options.memory_mib << 20;
    if (options.by_steps) host.scheduler_seed = options.scheduler_seed;
    reprise::test::set_host_environment(host, options.limits.devices);
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reprise_differential: %s\n", error.what());
    return 2;
  }
}
