// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/support/refused.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// What the tests of captures with eager parts share.

namespace reprise::breakables::test {

using graphs::test::add;
using graphs::test::contains;
using graphs::test::first;
using graphs::test::multiply;
using graphs::test::read;
using graphs::test::SideStream;
using graphs::test::text_of;
using graphs::test::zeros;
using reprise::test::expect_refused;
using reprise::test::Warnings;

/// A buffer of the values `from`, `from + 1`, ..., there when this returns.
inline Buffer<int> counting(std::size_t count, int from = 1) {
  std::vector<int> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(from + static_cast<int>(i));
  Buffer<int> made(count);
  made.write(values);
  return made;
}

/// Doubles x where the host finds it even, and adds 1 else: a decision that no capture can take.
inline void half_of_collatz(int* x, const StreamRef& stream = current_stream()) {
  int value = 0;
  copy_async(&value, x, sizeof(value), stream);
  stream.synchronize();
  if (value % 2 == 0)
    launch(stream, 1, graphs::test::Multiply{}, x, 2, x, std::size_t{1});
  else
    launch(stream, 1, graphs::test::Add{}, x, 1, std::size_t{1});
}

}  // namespace reprise::breakables::test
