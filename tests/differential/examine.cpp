// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>

#include "backend/host/host_runtime.h"
#include "backend/host/run/seeded_chooser.h"
#include "reprise/error.h"
#include "tests/differential/run.h"
#include "text/format.h"

namespace reprise::differential {
namespace {

std::mutex reports_mutex;
std::vector<std::string> reports;

void examine_into(Verdict* verdict, const Program& program, const Device& device, const std::optional<Device>& against,
                  const Fault& fault) {
  const Eager eager = run_eagerly(program, device);
  verdict->digest = digest(eager.once);
  verdict->text = compare_captured(program, device, eager, fault);
  if (verdict->text.empty() && against) {
    const Eager other = run_eagerly(program, *against);
    verdict->text = difference(other.once, eager.once);
    if (verdict->text.empty()) verdict->text = difference(other.twice, eager.twice);
    for (std::size_t i = 0; i < eager.changed.size() && verdict->text.empty(); ++i)
      verdict->text = difference(other.changed[i], eager.changed[i]);
    if (!verdict->text.empty())
      verdict->text = text::format("{} and {} differ: {}", against->str(), device.str(), verdict->text);
  }
  if (!verdict->text.empty()) verdict->failure = Failure::differs;
}

}  // namespace

std::string difference(const Contents& expected, const Contents& found) {
  for (std::size_t b = 0; b < expected.buffers.size(); ++b) {
    const std::vector<std::uint32_t>&wanted = expected.buffers[b], &values = found.buffers[b];
    if (wanted.size() != values.size())
      return text::format("buffer {} has {} values instead of {}", b, values.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i] != values[i])
        return text::format("value {} of buffer {} is {:#x} instead of {:#x}", i, b, values[i], wanted[i]);
  }
  for (std::size_t g = 0; g < expected.generators.size(); ++g)
    if (!(expected.generators[g] == found.generators[g]))
      return text::format("generator {} is at offset {} of seed {} instead of offset {} of seed {}", g,
                          found.generators[g].offset, found.generators[g].seed, expected.generators[g].offset,
                          expected.generators[g].seed);
  return "";
}

std::uint64_t digest(const Contents& contents) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3U; };
  for (const auto& values : contents.buffers)
    for (const std::uint32_t value : values) add(value);
  for (const GeneratorState& state : contents.generators) add(state.offset);
  return hash;
}

void run_by_steps(std::uint64_t scheduler_seed) {
  for (const Device& device : devices())
    if (device.type() == DeviceType::host) device.synchronize();
  backend::host::HostRuntime::instance().executor.run_by_steps(
      std::make_unique<backend::host::SeededChooser>(scheduler_seed));
}

Verdict examine(const Program& program, const Device& device, const std::optional<Device>& against,
                const Fault& fault) {
  Verdict verdict;
  try {
    examine_into(&verdict, program, device, against, fault);
  } catch (const std::exception& error) {
    verdict.failure = Failure::exception;
    verdict.text = error.what();
  }
  const std::vector<std::string> races = RaceReports::take();
  if (!races.empty()) {
    verdict.failure = Failure::race;
    verdict.text = races.front();
  }
  return verdict;
}

RaceReports::RaceReports() {
  set_log_sink([](std::string_view message) {
    if (message.substr(0, 5) != "race:") {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
      return;
    }
    const std::lock_guard lock(reports_mutex);
    reports.emplace_back(message);
  });
}

RaceReports::~RaceReports() {
  set_log_sink({});
}

std::vector<std::string> RaceReports::take() {
  const std::lock_guard lock(reports_mutex);
  return std::exchange(reports, {});
}

}  // namespace reprise::differential
