// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/call.h"
#include "reprise/error.h"

namespace reprise::backend {

class Backend;

/// Injected failures that are pending: the n-th call of a kind is not made, and returns a code instead.
///
/// Queried by a device before each call. Thread-safe; while no failure is pending, a call costs any() only.
class FailurePlan {
 public:
  /// A call that fails, and its code.
  struct Failure {
    std::optional<Call> call;             ///< nullopt: a call of any kind
    ErrorCode code = ErrorCode::unknown;  ///< returned by it
    std::uint64_t nth = 1;                ///< 1: the next match
    const Backend* device = nullptr;      ///< null: any device with this plan
  };
  /// A failure that is due.
  struct Happened {
    ErrorCode code;
    std::string detail;  ///< for the user, a sentence without a full stop
  };
  using Id = std::uint64_t;

  Id add(const Failure& failure);
  /// No-op if it has happened.
  void remove(Id id) noexcept;
  void clear() noexcept;
  /// True if it has not happened.
  bool contains(Id id) const noexcept;
  /// True if any failure is pending.
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  /// Counts a call that is about to be made. With a value the call must not be made. Of several due failures, the first
  /// added happens; the others at the next matching calls.
  std::optional<Happened> next(Call call, const Backend& device);

 private:
  struct Pending {
    Id id;
    Failure failure;
    std::uint64_t left;  // calls, including the failing one
  };
  void remember_any() noexcept { any_.store(!pending_.empty(), std::memory_order_release); }

  mutable std::mutex mutex_;
  std::vector<Pending> pending_;
  Id last_id_ = 0;
  std::atomic<bool> any_{false};
};

}  // namespace reprise::backend
