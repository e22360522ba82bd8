// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

#include "reprise/memory.h"
#include "reprise/stream.h"

namespace nccl_allreduce {

/// One rank of NCCL for each of several CUDA devices, all in this process: communicator, stream, and an array of floats
/// before and after the sum over all ranks.
///
/// A graph that captured all_reduce() must be destroyed before this object: it uses the communicators.
class Ranks {
 public:
  /// \throws std::runtime_error if NCCL cannot connect the devices.
  Ranks(const std::vector<reprise::Device>& devices, std::size_t values);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::size_t count() const { return communicators_.size(); }
  /// The stream of the first rank: its work comes before and after that of all ranks.
  reprise::StreamRef first_stream() const { return streams_.front(); }

  /// Sums the inputs of all ranks into the output of each. Forks from the first stream to the others and joins them
  /// again, so that a capture on the first stream contains all of it.
  void all_reduce();

  /// Sets inputs that differ for every rank and round, and invalid outputs. Waits.
  void prepare(unsigned round);
  /// True if every rank has the sums of the inputs of this round. Waits.
  bool correct(unsigned round) const;

 private:
  std::vector<ncclComm_t> communicators_;
  std::vector<reprise::Stream> streams_;
  std::vector<reprise::Buffer<float>> in_, out_;
  std::size_t values_;
};

}  // namespace nccl_allreduce
