// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/memory.h"

// Which replay overwrites what, among the graphed callables of a pool.

namespace reprise::libtorch {

/// One call of a graphed callable, for as long as somebody has its results.
struct Call {
  std::string callable;       ///< of which
  std::uint64_t number = 0;   ///< among the calls of it, from 1
  std::string outputs_lost;   ///< what has overwritten its results; empty: nothing
  std::string backward_lost;  ///< what has overwritten what its backward needs; empty: nothing
  /// Of its results in memory of the graph; raised when they are overwritten, so that eager operators which kept one
  /// for their backward notice.
  std::vector<c10::VariableVersion> versions;

  /// "call 3 of callable 0 (torch::nn::LinearImpl)"
  std::string text() const;
};

/// The graphs that were captured into one pool, in order of capture, as far as they are those of graphed callables.
///
/// Memory that was free at a capture may be used by it. So the replay of a graph overwrites what graphs captured later
/// left behind, and also what an earlier graph left for a later one that was captured before this one, which had freed
/// it by then:
///
///     captured:                  forward 0, forward 1, backward 1, backward 0
///     forward 0 overwrites       what forward 0 and forward 1 left
///     forward 1 overwrites       what forward 1 left
///     backward 1 overwrites      what it used up itself
///     backward 0 overwrites      that, and what forward 1 left for its backward
///
/// Used by one thread at a time, but for of().
class PoolOrder {
 public:
  /// That of a pool. Thread-safe.
  static std::shared_ptr<PoolOrder> of(MempoolId pool);

  /// The forward of a callable was captured. Returns its number.
  std::size_t add_forward(const std::string& callable);
  /// The backward that belongs to it was captured.
  void add_backward(std::size_t forward);

  /// The forward is about to run, for this call.
  void forward_runs(std::size_t forward, const std::shared_ptr<Call>& call);
  /// The backward is about to run.
  void backward_runs(std::size_t forward);

 private:
  struct Forward {
    std::string callable;
    std::size_t captured;         // its place in the order of captures
    std::size_t needed_until;     // that of its backward
    std::weak_ptr<Call> current;  // the last call
  };
  void overwrite(std::size_t captured, const std::string& by);

  std::size_t captures_ = 0;
  std::vector<Forward> forwards_;
};

}  // namespace reprise::libtorch
