// SPDX-License-Identifier: Apache-2.0
#include "pipeline.h"

#include "reprise/kernel.h"

namespace multi_stream {

using reprise::Event;
using reprise::launch;
using reprise::StreamRef;

// All kernels and their helpers: see REPRISE_KERNEL_ABI.
inline namespace REPRISE_KERNEL_ABI {

REPRISE_KERNEL inline std::uint32_t first_value(std::size_t i) {
  return static_cast<std::uint32_t>(i) * 2654435761U;
}

REPRISE_KERNEL inline std::uint32_t mix(std::uint32_t value, unsigned branch) {
  for (unsigned i = 0; i < 32; ++i) value = (value ^ (value >> 15)) * (2246822519U + 2 * branch);
  return value;
}

struct Fill {
  REPRISE_KERNEL void operator()(reprise::Thread t, std::uint32_t* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] = first_value(t.global_x());
  }
};

struct Mix {
  REPRISE_KERNEL void operator()(reprise::Thread t, const std::uint32_t* x, std::uint32_t* y, std::size_t n,
                                 unsigned branch) const {
    if (t.global_x() < n) y[t.global_x()] = mix(x[t.global_x()], branch);
  }
};

struct Sum {
  REPRISE_KERNEL void operator()(reprise::Thread t, const std::uint32_t* parts, unsigned count, std::uint32_t* sum,
                                 std::size_t n) const {
    if (t.global_x() >= n) return;
    std::uint32_t total = 0;
    for (unsigned part = 0; part < count; ++part) total += parts[part * n + t.global_x()];
    sum[t.global_x()] = total;
  }
};

}  // namespace REPRISE_KERNEL_ABI

Pipeline::Pipeline(unsigned branches, std::size_t values)
    : branches_(branches),
      values_(values),
      side_streams_(branches - 1),
      joined_(branches - 1),
      input_(values),
      mixed_(branches * values),
      sum_(values) {}

void Pipeline::run(const StreamRef& stream) {
  launch(stream, values_, Fill{}, input_.data(), values_);

  forked_.record(stream);
  for (unsigned branch = 0; branch < branches_; ++branch) {
    const StreamRef here = branch == 0 ? stream : side_streams_[branch - 1].ref();
    if (branch != 0) here.wait(forked_);
    std::uint32_t* const part = mixed_.data() + branch * values_;
    for (unsigned round = 0; round < rounds; ++round)
      launch(here, values_, Mix{}, round == 0 ? input_.data() : part, part, values_, branch);
    if (branch != 0) joined_[branch - 1].record(here);
  }
  for (const Event& joined : joined_) stream.wait(joined);

  launch(stream, values_, Sum{}, mixed_.data(), branches_, sum_.data(), values_);
}

std::vector<std::uint32_t> Pipeline::result(const StreamRef& stream) const {
  return sum_.read(stream);
}

std::vector<std::uint32_t> Pipeline::expected() const {
  std::vector<std::uint32_t> sums(values_, 0);
  for (std::size_t i = 0; i < values_; ++i) {
    for (unsigned branch = 0; branch < branches_; ++branch) {
      std::uint32_t value = first_value(i);
      for (unsigned round = 0; round < rounds; ++round) value = mix(value, branch);
      sums[i] += value;
    }
  }
  return sums;
}

}  // namespace multi_stream
