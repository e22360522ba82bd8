// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "captures/capture.h"
#include "reprise/export.h"

namespace reprise::random {

/// The words from which draws in one capture read the seed of an ExternalGenerator, by their addresses: those that this
/// capture lent, and those that other captures had lent while it was underway. A generator can serve one capture at a
/// time; work of another one that draws from it reads words that are not its own.
///
/// Attached to the capture by open(), until its registration ends. Thread-safe.
class REPRISE_EXPORT_INTERNAL LentWords {
 public:
  using Addresses = std::set<std::uintptr_t>;

  static std::shared_ptr<LentWords> open(captures::Capture& capture);

  /// To be called before the generator gets the words: from then on all captures underway know them.
  void lend(const std::uint64_t* words);
  /// Adds words that no capture in the registry lent; 0 is none.
  void add_foreign(std::uintptr_t address);
  /// Words that are not this capture's own.
  Addresses of_others() const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  Addresses own_, of_others_;
};

}  // namespace reprise::random
