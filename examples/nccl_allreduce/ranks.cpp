// SPDX-License-Identifier: Apache-2.0
#include "ranks.h"

#include <cstdio>
#include <stdexcept>
#include <string>

namespace nccl_allreduce {
namespace {

void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(call) + " failed: " + ncclGetErrorString(result) + "; " +
                           ncclGetLastError(nullptr) + " (NCCL_DEBUG=INFO says more)");
}

/// Whole numbers that are small enough for exact sums.
float value(unsigned round, std::size_t rank, std::size_t i) {
  return static_cast<float>((i + 31 * rank + 7 * std::size_t{round}) % 1000);
}

}  // namespace

Ranks::Ranks(const std::vector<reprise::Device>& devices, std::size_t values)
    : communicators_(devices.size()), values_(values) {
  std::vector<int> indices;
  for (const reprise::Device device : devices) {
    indices.push_back(device.index());
    streams_.emplace_back(device);
    in_.emplace_back(values, streams_.back());
    out_.emplace_back(values, streams_.back());
  }
  check(ncclCommInitAll(communicators_.data(), static_cast<int>(indices.size()), indices.data()), "ncclCommInitAll");
}

Ranks::~Ranks() {
  for (const ncclComm_t communicator : communicators_)
    if (ncclCommDestroy(communicator) != ncclSuccess) std::fprintf(stderr, "ncclCommDestroy failed\n");
}

void Ranks::all_reduce() {
  const reprise::StreamRef first = first_stream();
  for (std::size_t rank = 1; rank < count(); ++rank) streams_[rank].wait(first);
  check(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t rank = 0; rank < count(); ++rank)
    check(ncclAllReduce(in_[rank].data(), out_[rank].data(), values_, ncclFloat, ncclSum, communicators_[rank],
                        streams_[rank].native()),
          "ncclAllReduce");
  check(ncclGroupEnd(), "ncclGroupEnd");
  for (std::size_t rank = 1; rank < count(); ++rank) first.wait(streams_[rank]);
}

void Ranks::prepare(unsigned round) {
  std::vector<float> values(values_);
  for (std::size_t rank = 0; rank < count(); ++rank) {
    for (std::size_t i = 0; i < values_; ++i) values[i] = value(round, rank, i);
    out_[rank].fill_bytes_async(0xff, streams_[rank]);
    in_[rank].write(values, streams_[rank]);
  }
}

bool Ranks::correct(unsigned round) const {
  std::vector<float> sums(values_, 0);
  for (std::size_t rank = 0; rank < count(); ++rank)
    for (std::size_t i = 0; i < values_; ++i) sums[i] += value(round, rank, i);
  for (std::size_t rank = 0; rank < count(); ++rank) {
    streams_[rank].wait(first_stream());
    if (out_[rank].read(streams_[rank]) != sums) return false;
  }
  return true;
}

}  // namespace nccl_allreduce
