// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/environment_number.h"
#include "tests/unit/cache/cache_fixture.h"
#include "tests/unit/random/random_fixture.h"

// Random programs whose steps go through a cache, against the same programs without one: every result and the state
// afterwards are the same, bit for bit. REPRISE_CACHE_PROGRAMS sets how many.

namespace reprise::caches::test {
namespace {

/// a[i] = 31 * a[i] + b[i], wrapping
struct Mix {
  REPRISE_KERNEL void operator()(Thread t, unsigned* a, const unsigned* b, std::size_t count) const {
    if (t.global_x() < count) a[t.global_x()] = 31 * a[t.global_x()] + b[t.global_x()];
  }
  static auto accesses(unsigned* a, const unsigned* b, std::size_t count) {
    return std::array{reads(a, count), writes(a, count), reads(b, count)};
  }
};

void mix(unsigned* a, const unsigned* b, std::size_t count, const StreamRef& stream = current_stream()) {
  launch(stream, count, Mix{}, a, b, count);
}

constexpr std::size_t most = 600;

/// What the steps of a program use besides their inputs, and where it lies.
struct World {
  World() : state(most), numbers(most), generator(current_device(), 7) {
    state.fill_bytes_async(3);
    numbers.fill_bytes_async(1);
  }
  Buffer<unsigned> state, numbers;
  Generator generator;
  Stream side;
};

/// A step: its work follows from the key alone.
struct Step {
  World& world;
  unsigned key;
  std::size_t size;

  std::tuple<Buffer<unsigned>, Buffer<unsigned>> operator()(DeviceView<const unsigned> x,
                                                            DeviceView<unsigned> y) const {
    std::mt19937 random(key);
    Buffer<unsigned> a(size), b(size);
    copy_async(a.data(), x.data(), size * sizeof(unsigned));
    b.fill_bytes_async(static_cast<unsigned char>(key));
    for (unsigned ops = 3 + random() % 6; ops > 0; --ops) {
      const std::size_t half = size / 2;
      switch (random() % 10) {
        case 0:
          mix(a.data(), x.data(), size);
          break;
        case 1:
          mix(world.state.data(), a.data(), size);
          break;
        case 2:
          mix(b.data(), a.data(), size);
          break;
        case 3:
          mix(a.data() + half, x.data() + half, size - half);
          break;
        case 4:
          mix(y.data(), b.data(), size);
          break;
        case 5:
          use_scratch(a, random() % 3 + 1);
          break;
        case 6:
          copy_batch_async(std::array{CopyOp{b.data(), a.data() + half, half * sizeof(unsigned)}});
          break;
        case 7:
          random::test::draw(world.generator, world.numbers);
          mix(a.data(), world.numbers.data(), size);
          break;
        case 8:
          eager([here = &world] { mix(here->state.data(), here->numbers.data(), most); });
          break;
        default:
          fork(a, b);
      }
    }
    return {std::move(a), std::move(b)};
  }

 private:
  // Memory that is freed within the step, so that other steps share it.
  void use_scratch(Buffer<unsigned>& a, unsigned pieces) const {
    for (unsigned i = 0; i < pieces; ++i) {
      Buffer<unsigned> scratch(size * (i + 1));
      scratch.fill_bytes_async(static_cast<unsigned char>(i));
      mix(scratch.data(), a.data(), size);
      mix(a.data(), scratch.data(), size);
    }
  }
  void fork(const Buffer<unsigned>& a, Buffer<unsigned>& b) const {
    const StreamRef here = current_stream();
    world.side.wait(here);
    mix(world.state.data(), a.data(), size, world.side);
    mix(b.data(), a.data(), size);
    here.wait(world.side);
  }
};

constexpr std::array<std::size_t, 3> sizes{16, 100, 500};

GraphCacheOptions random_cache_options(std::mt19937& random) {
  return {.max_entries = 1 + random() % 6,
          .max_bytes = random() % 4 == 0 ? std::uint64_t{3} << 20 : 0,
          .capture_after = random() % 4,
          .check_every = random() % 2 == 0 ? 1 + random() % 5 : 0,
          .inputs = random() % 2 == 0 ? CacheInputs::patch : CacheInputs::copy,
          .outputs = random() % 2 == 0 ? CacheOutputs::alias : CacheOutputs::copy,
          .padding = [](std::size_t length) { return *std::ranges::lower_bound(sizes, length); }};
}

std::vector<unsigned> values_of(const Buffer<unsigned>& x) {
  return random::test::read(x);
}

/// What the calls of all programs were.
struct Seen {
  std::uint64_t padded = 0, padded_hits = 0, captures = 0, evicted = 0;
};

/// The first values, and zeros up to the size.
Buffer<unsigned> padded_with_zeros(const std::vector<unsigned>& values, std::size_t size) {
  std::vector<unsigned> all = values;
  all.resize(size);
  return Buffer<unsigned>(all);
}

/// One call with a length below the size of its key, eagerly and by run_padded().
void call_padded(World& eager, World& cached, GraphCache& cache, unsigned key, std::mt19937& random) {
  const std::size_t size = sizes[key % 3], shortest = key % 3 == 0 ? 1 : sizes[key % 3 - 1] + 1;
  const std::size_t length = shortest + random() % (size - shortest + 1);
  std::vector<unsigned> values(length);
  for (unsigned& value : values) value = random();
  const auto first_values = [&](std::vector<unsigned> all) {
    all.resize(length);
    return all;
  };
  const Buffer<unsigned> x = padded_with_zeros(values, size), x_cached(values);
  Buffer<unsigned> y = padded_with_zeros(values, size), y_cached(values);
  const auto [a, b] = Step{eager, key, size}(x, DeviceView<unsigned>(y.data(), size));
  const auto [c, d] =
      cache.run_padded({"padded", key}, length, inputs(x_cached, inout(y_cached)),
                       [&](std::size_t padded, DeviceView<const unsigned> in, DeviceView<unsigned> out) {
                         return Step{cached, key, padded}(in, out);
                       });
  ASSERT_EQ(first_values(values_of(a)), c.read()) << "key " << key << ", length " << length;
  ASSERT_EQ(first_values(values_of(b)), d.read()) << "key " << key << ", length " << length;
  ASSERT_EQ(first_values(values_of(y)), values_of(y_cached)) << "key " << key << ", length " << length;
}

void run_program(unsigned seed, Seen& seen) {
  SCOPED_TRACE(::testing::Message() << "program " << seed);
  std::mt19937 random(seed);
  const SideStream side;
  const Stream other;
  World eager, cached;
  other.wait(side.ref());
  GraphCache cache(random_cache_options(random));
  const unsigned keys = 2 + random() % 10;
  for (int call = 0; call < 60; ++call) {
    const unsigned key = random() % keys;
    const std::size_t size = sizes[key % 3];
    const std::size_t offset = random() % 4 == 0 ? random() % 80 : 0;
    std::vector<unsigned> values(size + offset);
    for (unsigned& value : values) value = random();
    const bool on_other = random() % 5 == 0;
    std::optional<StreamGuard> guard;
    if (on_other) {
      other.wait(side.ref());
      guard.emplace(other);
    }
    if (random() % 3 == 0) {
      const std::uint64_t hits = cache.statistics().hits;
      ASSERT_NO_FATAL_FAILURE(call_padded(eager, cached, cache, key, random)) << "call " << call;
      ++seen.padded;
      seen.padded_hits += cache.statistics().hits - hits;
      ASSERT_EQ(values_of(eager.state), values_of(cached.state)) << "call " << call << ", key " << key;
      if (on_other) side.ref().wait(other);
      continue;
    }
    Buffer<unsigned> x(values), y(values), x_cached(values), y_cached(values);
    const DeviceView<const unsigned> in(x.data() + offset, size), in_cached(x_cached.data() + offset, size);
    const auto [a, b] = Step{eager, key, size}(in, DeviceView<unsigned>(y.data() + offset, size));
    const auto [c, d] = cache.run({key}, inputs(in_cached, DeviceView<unsigned>(y_cached.data() + offset, size)),
                                  Step{cached, key, size});
    ASSERT_EQ(values_of(a), c.read()) << "call " << call << ", key " << key;
    ASSERT_EQ(values_of(b), d.read()) << "call " << call << ", key " << key;
    ASSERT_EQ(values_of(y), values_of(y_cached)) << "call " << call << ", key " << key;
    ASSERT_EQ(values_of(eager.state), values_of(cached.state)) << "call " << call << ", key " << key;
    ASSERT_EQ(eager.generator.get_state(), cached.generator.get_state());
    if (on_other) side.ref().wait(other);
    if (random() % 30 == 0) cache.forget({random() % keys});
    if (random() % 100 == 0) cache.clear();
  }
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_LE(counts.failed_captures.number, counts.eager_by_cause[static_cast<std::size_t>(EagerCause::too_large)]);
  EXPECT_EQ(counts.hits + counts.captures.number + counts.eager.number, 60u);
  seen.captures += counts.captures.number;
  seen.evicted += counts.evictions.number;
}

TEST(RandomProgramsOfGraphCaches, ComputeWhatEagerOnesDo) {
  const Warnings warnings;  // of keys that would thrash
  const auto programs = static_cast<unsigned>(
      reprise::test::environment_number("REPRISE_CACHE_PROGRAMS", 30, 0, std::numeric_limits<unsigned>::max()));
  Seen seen;
  for (unsigned seed = 0; seed < programs && !::testing::Test::HasFatalFailure(); ++seed) run_program(seed, seen);
  std::printf("%llu calls padded, %llu of them hits; %llu captures, %llu evictions\n",
              static_cast<unsigned long long>(seen.padded), static_cast<unsigned long long>(seen.padded_hits),
              static_cast<unsigned long long>(seen.captures), static_cast<unsigned long long>(seen.evicted));
  if (programs < 30) return;
  EXPECT_GT(seen.padded_hits, 0u);
  EXPECT_GT(seen.evicted, 0u);
}

}  // namespace
}  // namespace reprise::caches::test
