// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "captures/capture.h"
#include "random/draw_source.h"
#include "reprise/detail/export.h"

namespace reprise::random {

/// The words from which draws in one capture read the seed of an ExternalGenerator, by their addresses: those that this
/// capture attached to the generator, and those that other captures attached while it was underway. A generator can
/// serve one capture at a time; work of another one that draws from it reads words that are not its own.
///
/// Attached to the capture by open(), until its registration ends. Thread-safe.
class REPRISE_EXPORT_INTERNAL LentWords {
 public:
  using Addresses = std::set<std::uintptr_t>;

  static std::shared_ptr<LentWords> open(captures::Capture& capture);
  /// Null if there are none.
  static std::shared_ptr<LentWords> of(const captures::Capture& capture) noexcept;

  /// Notes words of this capture for all captures underway. To be called before ExternalGenerator::attach().
  void lend(const std::uint64_t* words);
  /// The words are attached to a generator, which serves the draws of this capture from now on.
  void serves(std::shared_ptr<ExternalGenerator> generator, std::uint64_t* words);
  struct Served {
    std::shared_ptr<ExternalGenerator> generator;  ///< null if none serves them
    std::uint64_t* words = nullptr;
  };
  /// What serves draws from the same state as this source.
  Served serving(const DrawSource& source) const;
  /// Notes words that no capture in the registry attached; 0 is none.
  void add_foreign(std::uintptr_t address);
  /// Words that are not this capture's own.
  Addresses of_others() const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  Addresses own_, of_others_;
  std::vector<Served> served_;
};

}  // namespace reprise::random
