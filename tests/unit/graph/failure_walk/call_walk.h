// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/accounting_backend.h"
#include "tests/support/warnings.h"

// The driver of all walks of failures: an operation runs again and again, with trouble at its first call of the
// runtime, then at its second, until it makes fewer calls. Then all is checked: the error or warning, stream, thread,
// memory, the runtime's objects, and what the operation adds.

namespace reprise::test {

/// What the devices of the walks hold, by the counts of the allocator, of the driver and of the books.
struct Held {
  std::uint64_t reserved = 0;
  std::uint64_t reserved_by_pools = 0;  ///< private ones
  std::uint64_t allocations = 0;
  std::uint64_t free = 0;
  backend::test::Living living;
};

/// The runtime of the walks, which counts. It and the second device, which fails together with it, live until the
/// process ends.
backend::test::AccountingBackend& walked_runtime();
/// Nothing where there is one device.
std::optional<Device> second_walked_device();
/// After unused cached memory was released.
Held held_by_walked_devices();
/// In private pools, in bytes, of which none is released by the call.
std::uint64_t reserved_by_pools_of_walked_devices();
/// Waits until they hold what they held; memory that graphs hold is released a moment after them.
void expect_held(const Held& expected);

/// What the body of an operation throws itself, to see how a capture is left by an exception.
struct BodyFailed : std::runtime_error {
  BodyFailed() : std::runtime_error("the body of the capture failed") {}
};

/// What came out of an operation.
struct Outcome {
  bool thrown = false;
  bool of_the_body = false;  ///< BodyFailed
  std::string call;          ///< of a BackendError
  std::optional<ErrorCode> code;
  std::string text;
};

/// What becomes of a call.
class Trouble {
 public:
  virtual ~Trouble() = default;
  /// At the call after `passed` others.
  virtual void prepare(int passed) = 0;
  /// What happened, in words; empty: the operation does not make so many calls.
  virtual std::string happened() = 0;
  /// The first error is what the user sees.
  /// \param noted true if the operation reports it elsewhere than in an exception or a warning
  virtual void expect_reported(const Outcome& outcome, const Warnings& warnings, bool noted) = 0;
  /// Memory that the driver refused to free stays cached; otherwise pools are released automatically.
  virtual bool pools_stay() const { return false; }
};

/// A call fails.
class FailingCall final : public Trouble {
 public:
  explicit FailingCall(ErrorCode code) : code_(code) {}
  void prepare(int passed) override;
  std::string happened() override;
  void expect_reported(const Outcome& outcome, const Warnings& warnings, bool noted) override;
  bool pools_stay() const override { return failed_ == backend::Call::memory_free; }
  /// Expects each failure that may be silent to have been so once: else it is taken off the list.
  void expect_all_silent_ones() const;

 private:
  ErrorCode code_;
  std::optional<backend::Call> failed_;
  std::set<backend::Call> unsaid_;
};

/// Another thread breaks the captures that are underway before a call.
class BrokenCaptures final : public Trouble {
 public:
  void prepare(int passed) override;
  std::string happened() override;
  void expect_reported(const Outcome& outcome, const Warnings& warnings, bool noted) override;
  int broken() const { return broken_; }

 private:
  bool came_ = false;
  bool broke_ = false;
  int broken_ = 0;
};

/// One run of an operation, on the devices of the walk. Made anew for each trouble.
class WalkedRun {
 public:
  virtual ~WalkedRun() = default;
  virtual void prepare() {}  ///< not walked
  virtual void run() = 0;    ///< walked
  virtual bool noted() const { return false; }
  /// Expects the effect of the operation, and that all works afterwards.
  virtual void check(const Outcome& outcome, const Trouble& trouble) = 0;
};

/// Walks through an operation. Returns how many calls it made.
int walk(const std::string& name, Trouble& trouble, const std::function<std::unique_ptr<WalkedRun>()>& make);

}  // namespace reprise::test
