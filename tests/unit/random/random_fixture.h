// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "reprise/philox.h"
#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// What the tests of random numbers share.

namespace reprise::random::test {

using graphs::test::contains;
using graphs::test::SideStream;
using graphs::test::text_of;

/// x[i] = the `draws`-th number of thread i
struct Draw {
  REPRISE_KERNEL void operator()(Thread t, PhiloxState state, unsigned* x, std::size_t n, unsigned draws) const {
    const std::size_t i = t.global_x();
    if (i >= n) return;
    Philox philox(state, i);
    unsigned number = 0;
    for (unsigned k = 0; k < draws; ++k) number = philox();
    x[i] = number;
  }
  static auto accesses(const PhiloxState& state, unsigned* x, std::size_t n, unsigned) {
    return std::array{state.access(), writes(x, n)};
  }
};

/// One launch that draws `draws` numbers a thread.
inline void draw(const Generator& generator, Buffer<unsigned>& x, unsigned draws = 1,
                 const StreamRef& stream = current_stream()) {
  launch(stream, x.size(), Draw{}, generator.philox_state(draws, stream), x.data(), x.size(), draws);
}

/// All values, after the work of the current stream.
inline std::vector<unsigned> read(const Buffer<unsigned>& x) {
  std::vector<unsigned> values(x.size());
  x.read_async(values);
  current_stream().synchronize();
  return values;
}

/// What an eager launch draws.
inline std::vector<unsigned> drawn(const Generator& generator, std::size_t n = 4, unsigned draws = 1) {
  Buffer<unsigned> x(n);
  draw(generator, x, draws);
  return read(x);
}

}  // namespace reprise::random::test
