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
/// capture attached to the generator, and those that other captures attached while it was underway. A generator can
/// serve one capture at a time; work of another one that draws from it reads words that are not its own.
///
/// Attached to the capture by open(), until its registration ends. Thread-safe.
class REPRISE_EXPORT_INTERNAL LentWords {
 public:
  using Addresses = std::set<std::uintptr_t>;

  static std::shared_ptr<LentWords> open(captures::Capture& capture);

  /// Notes words of this capture for all captures underway. To be called before ExternalGenerator::attach().
  void lend(const std::uint64_t* words);
  /// Notes words that no capture in the registry attached; 0 is none.
  void add_foreign(std::uintptr_t address);
  /// Words that are not this capture's own.
  Addresses of_others() const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  Addresses own_, of_others_;
};

}  // namespace reprise::random
