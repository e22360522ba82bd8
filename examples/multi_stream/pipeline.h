// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/event.h"
#include "reprise/memory.h"
#include "reprise/stream.h"

namespace multi_stream {

/// Work that forks into independent branches, and joins again:
///
///                +-> mix -> mix -> mix --+
///     fill ------+-> mix -> mix -> mix --+-----> sum
///                +-> mix -> mix -> mix --+
///
/// The first branch stays on the stream of the work, each other one has its own stream. Events make the fork and the
/// join; captured, they are edges of the graph.
class Pipeline {
 public:
  static constexpr unsigned rounds = 3;  ///< how often a branch mixes its values

  /// Memory and streams of the current device for `branches` branches of `values` values each.
  Pipeline(unsigned branches, std::size_t values);

  /// Submits the work to `stream`, to run or to be captured.
  void run(const reprise::StreamRef& stream);

  /// The number of kernels of a run.
  unsigned kernels() const { return 2 + branches_ * rounds; }

  /// Returns the result of the last run, after the work of `stream`.
  std::vector<std::uint32_t> result(const reprise::StreamRef& stream) const;
  /// Makes the result unreadable until the next run.
  void forget_result(const reprise::StreamRef& stream) { sum_.fill_bytes_async(0xff, stream); }

  /// Computes the result on the host, one value after the other.
  std::vector<std::uint32_t> expected() const;

 private:
  unsigned branches_;
  std::size_t values_;
  std::vector<reprise::Stream> side_streams_;  // of the branches after the first
  std::vector<reprise::Event> joined_;         // the ends of those
  reprise::Event forked_;
  reprise::Buffer<std::uint32_t> input_, mixed_, sum_;  // mixed_: one branch after the other
};

}  // namespace multi_stream
