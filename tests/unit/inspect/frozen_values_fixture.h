// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of frozen values share.

namespace reprise::graphs::test {

/// Launches a kernel of one thread as a compiler does that leaves the padding of the arguments as it is.
template <class Kernel, class... Args>
void launch_with_padding(Kernel /*kernel*/, const Args&... args) {
  struct Record : KernelRecord {
    Record() : KernelRecord(kernel_record<Kernel>()), uncleared(params.begin(), params.end()) {
      for (KernelParam& param : uncleared) param.cleared = false;
      params = uncleared;
    }
    std::vector<KernelParam> uncleared;
  };
  static const Record record;
  void* params[] = {const_cast<Args*>(&args)..., nullptr};
  detail::launch_kernel(current_stream(), LaunchConfig::cover(1, 1), record, params);
}

class FrozenValues : public ::testing::Test {
 protected:
  /// What is refused; fails if nothing is.
  template <class Body>
  FrozenValuesError refusal(const Body& body, GraphOptions options = {}) {
    if (!options.check_frozen_values) options.check_frozen_values = [this] { ++i_; };
    try {
      capture(graph_, options, body);
    } catch (const FrozenValuesError& error) {
      EXPECT_THROW(graph_.pool(), UsageError) << "it is empty";
      return error;
    }
    ADD_FAILURE() << "nothing was refused";
    return FrozenValuesError("", {});
  }
  template <class Body>
  void capture_checked(const Body& body) {
    capture(graph_, {.check_frozen_values = [this] { ++i_; }}, body);
  }

  Buffer<int> x_ = zeros(100);
  int i_ = 0;
  int runs_ = 0;
  CUDAGraph graph_;
};

}  // namespace reprise::graphs::test
