// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>

#include "backend/host/run/executor.h"

namespace reprise::backend::host {

/// Picks at random: the same picks for the same seed, on every machine.
class SeededChooser final : public Chooser {
 public:
  explicit SeededChooser(std::uint64_t seed) : random_(seed) {}
  // Not a distribution of the standard library, which differs between implementations. The bias does not matter.
  std::size_t choose(std::size_t ready) override { return static_cast<std::size_t>(random_() % ready); }

 private:
  std::mt19937_64 random_;
};

}  // namespace reprise::backend::host
