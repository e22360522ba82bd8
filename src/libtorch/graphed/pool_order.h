// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/memory.h"

// Order of the graphed callables of a pool: which replay overwrites what.

namespace reprise::libtorch {

/// The replay that has overwritten memory of a call, if any. Recorded at each replay, formatted on demand.
struct Overwritten {
  std::shared_ptr<const std::string> by;  ///< the callable whose replay it was; null: nothing has
  std::uint64_t call = 0;                 ///< its number; 0: a backward
  bool used_up = false;                   ///< it was the backward of the call itself

  explicit operator bool() const noexcept { return by != nullptr; }
  /// "call 3 of callable 0 (torch::nn::LinearImpl)"
  std::string text() const;
};

/// One call of a graphed callable, as long as its results live.
struct GraphedCall {
  std::shared_ptr<const std::string> callable;  ///< of which
  std::uint64_t number = 0;                     ///< among the calls of it, from 1
  Overwritten outputs_lost;                     ///< its results
  Overwritten backward_lost;                    ///< what its backward needs
  /// Version counters of the results; bumped when these are overwritten, so that saved tensors are found stale.
  std::vector<c10::VariableVersion> versions;

  /// "call 3 of callable 0 (torch::nn::LinearImpl)"
  std::string text() const { return Overwritten{callable, number}.text(); }
};

/// The graphs that were captured into one pool, in order of capture, as far as they are those of graphed callables.
///
/// A capture may use memory that was free at that time. So the replay of a graph overwrites results of graphs captured
/// later, and also what an earlier graph left for a graph captured before this one, which had freed it by then:
///
///     captured:                  forward 0, forward 1, backward 1, backward 0
///     forward 0 overwrites       what forward 0 and forward 1 left
///     forward 1 overwrites       what forward 1 left
///     backward 1 overwrites      what it used up itself
///     backward 0 overwrites      that, and what forward 1 left for its backward
///
/// The same holds for any other order of captures in which each backward comes after its forward.
///
/// Used by one thread at a time, except for of().
class PoolOrder {
 public:
  /// The order of a pool. Thread-safe.
  static std::shared_ptr<PoolOrder> of(MempoolId pool);

  /// Adds the captured forward of a callable. Returns its number. Removed, when further ones are added, once this
  /// pointer is not referenced elsewhere: neither by the callable, which must keep it, nor by a call of it.
  std::size_t add_forward(std::shared_ptr<const std::string> callable);
  /// Adds its captured backward.
  void add_backward(std::size_t forward);

  /// Called before the forward runs, for this call.
  void forward_runs(std::size_t forward, const std::shared_ptr<GraphedCall>& call);
  /// Called before the backward runs.
  void backward_runs(std::size_t forward);

  /// The number of forwards that it checks when a graph runs.
  std::size_t size() const { return forwards_.size(); }

 private:
  struct Forward {
    std::shared_ptr<const std::string> callable;
    std::size_t captured;                // its number: its place in the order of captures
    std::size_t needed_until;            // that of its backward
    std::weak_ptr<GraphedCall> current;  // the last call
  };
  Forward& at(std::size_t number);
  void overwrite(std::size_t captured, const Overwritten& by);

  std::size_t captures_ = 0;
  std::vector<Forward> forwards_;  // by number, ascending
};

}  // namespace reprise::libtorch
