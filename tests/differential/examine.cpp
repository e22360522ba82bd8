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
  for (std::size_t b = 0; b < expected.size(); ++b) {
    if (expected[b].size() != found[b].size())
      return text::format("buffer {} has {} values instead of {}", b, found[b].size(), expected[b].size());
    for (std::size_t i = 0; i < expected[b].size(); ++i)
      if (expected[b][i] != found[b][i])
        return text::format("value {} of buffer {} is {:#x} instead of {:#x}", i, b, found[b][i], expected[b][i]);
  }
  return "";
}

std::uint64_t digest(const Contents& contents) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const auto& values : contents)
    for (const std::uint32_t value : values) hash = (hash ^ value) * 0x100000001B3U;
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
  set_log_sink([](LogLevel, std::string_view message) {
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
