// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/conformance/recorder/recorder.h"

// The calls of the recorder, file by file. Those that work on a stream come once for each kind of stream: `s` captures,
// `nb` and `b` do not, and `legacy` is the default stream.

namespace reprise::backend::test {

using Calls = std::vector<RecordedCall>;
using OnStream = std::function<Result(State&, StreamHandle)>;

void on_streams(Calls& calls, const std::string& name, const OnStream& make);

inline MemsetNodeParams memset_of(const State& x, unsigned value) {
  return {x.device, value, 1, 16};
}

void add_event_calls(Calls& calls);
void add_capture_calls(Calls& calls);
void add_fork_calls(Calls& calls);

}  // namespace reprise::backend::test
