// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include "reprise/reprise.h"

// Shared by the benchmarks. They use no framework, because they measure comparisons in turns: a round measures each
// side once, so that changes in the machine's speed affect both.

namespace benchmarks {

/// How to measure.
struct Settings {
  reprise::Device device;
  unsigned rounds;  ///< each figure is the median of so many
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

/// The figures of one side of a comparison, a value a round.
class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  double median() const {
    std::vector<double> sorted = values_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }

 private:
  std::vector<double> values_;
};

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line = fmt::format(format, std::forward<Args>(args)...);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace benchmarks
