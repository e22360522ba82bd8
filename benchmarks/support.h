// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "table.h"

// Shared by the benchmarks. They use no framework, because they measure comparisons in turns: a round measures each
// side once, so that changes in the machine's speed affect all of them.

namespace benchmarks {

class Results;

/// How to measure.
struct Settings {
  reprise::Device device;
  unsigned rounds;   ///< each figure is the median of so many
  Results* results;  ///< where tables go
};

void replay(const Settings& settings);
void capture(const Settings& settings);
void update(const Settings& settings);
void batch(const Settings& settings);
void allocator(const Settings& settings);
void random_numbers(const Settings& settings);
void annotations(const Settings& settings);
void liveness(const Settings& settings);
void parameters(const Settings& settings);
void cache(const Settings& settings);
void memory(const Settings& settings);
void eager_parts(const Settings& settings);

/// Seconds that a call takes.
template <class F>
double seconds(F&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The median of values; the upper one of two in the middle.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The order of `count` sides that are measured in rounds. A side is affected by the caches of the previous one: each
/// round begins with another side, and every other round goes backwards.
inline std::size_t turn_of(std::size_t round, std::size_t i, std::size_t count) {
  return (round + (round % 2 == 0 ? i : count - 1 - i)) % count;
}

/// Measures `sides` sides in turns, each with N figures: `measure(side)` returns them. The first round warms up and is
/// discarded. Returns the medians of each side.
template <std::size_t N, class Measure>
std::vector<std::array<double, N>> medians_of(const Settings& settings, std::size_t sides, Measure&& measure) {
  std::vector<std::array<std::vector<double>, N>> samples(sides);
  for (std::size_t round = 0; round <= settings.rounds; ++round)
    for (std::size_t i = 0; i < sides; ++i) {
      const std::size_t side = turn_of(round, i, sides);
      const std::array<double, N> figures = measure(side);
      for (std::size_t k = 0; k < N && round > 0; ++k) samples[side][k].push_back(figures[k]);
    }
  std::vector<std::array<double, N>> made(sides);
  for (std::size_t side = 0; side < sides; ++side)
    for (std::size_t k = 0; k < N; ++k) made[side][k] = median(std::move(samples[side][k]));
  return made;
}

/// As above, with one figure.
template <class Measure>
std::vector<double> medians(const Settings& settings, std::size_t sides, Measure&& measure) {
  std::vector<double> made;
  const auto wrapped = [&](std::size_t side) { return std::array<double, 1>{measure(side)}; };
  for (const auto& each : medians_of<1>(settings, sides, wrapped)) made.push_back(each[0]);
  return made;
}

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = fmt::format(format, std::forward<Args>(args)...);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace benchmarks
