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

/// Failures that were asked for and are still to come: the n-th call of a kind is not made, and returns a code instead.
///
/// A device asks before it makes a call. All functions may be called from any thread; while nothing is to fail, any()
/// is all that a call costs.
class FailurePlan {
 public:
  /// Which call fails, and how.
  struct Failure {
    std::optional<Call> call;         ///< nothing: a call of any kind
    Result code = Result::unknown;    ///< what it returns
    std::uint64_t nth = 1;            ///< 1: the next one that fits
    const Backend* device = nullptr;  ///< null: any device that asks this plan
  };
  /// A failure that happens now.
  struct Happened {
    Result code;
    std::string detail;  ///< for the user, a sentence without a full stop
  };
  using Id = std::uint64_t;

  Id add(const Failure& failure);
  /// Does nothing if it has happened.
  void remove(Id id) noexcept;
  void clear() noexcept;
  /// Is it still to come?
  bool contains(Id id) const noexcept;
  /// Is any still to come?
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  /// Counts a call that is about to be made. A value: it is not to be made. Of several failures that are due, the one
  /// that was added first happens, and the others at the next calls that fit.
  std::optional<Happened> next(Call call, const Backend& device);

 private:
  struct Pending {
    Id id;
    Failure failure;
    std::uint64_t left;  // calls, this one included
  };
  void remember_any() noexcept { any_.store(!pending_.empty(), std::memory_order_release); }

  mutable std::mutex mutex_;
  std::vector<Pending> pending_;
  Id last_id_ = 0;
  std::atomic<bool> any_{false};
};

}  // namespace reprise::backend
