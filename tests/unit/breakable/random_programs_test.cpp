// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment_number.h"
#include "tests/unit/breakable/breakable_fixture.h"
#include "tests/unit/random/random_fixture.h"

// Random programs with eager parts, also as bodies of a cache, against the same ones run eagerly: the memory that they
// leave and what the host saw of it are the same, bit for bit. REPRISE_BREAKABLE_PROGRAMS sets how many.

namespace reprise::breakables::test {
namespace {

constexpr std::size_t most = 300;
constexpr std::size_t blocks = 4;

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
  if (a != b) launch(stream, count, Mix{}, a, b, count);
}

/// What a program uses that lies outside of it.
struct World {
  explicit World(unsigned seed) : numbers(most), generator(current_device(), seed) {
    for (std::size_t i = 0; i < blocks; ++i) {
      state.emplace_back(most);
      state.back().fill_bytes_async(static_cast<unsigned char>(seed + i));
    }
    numbers.fill_bytes_async(1);
  }
  std::vector<unsigned> contents() const {
    std::vector<unsigned> all;
    for (const Buffer<unsigned>& each : state) {
      const std::vector<unsigned> values = random::test::read(each);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  std::vector<Buffer<unsigned>> state;
  Buffer<unsigned> numbers;
  Generator generator;
  Stream side;
  std::vector<unsigned> seen;  ///< by the host, in eager parts
  bool fails = false;          ///< the next eager part throws
};

struct PartFailed {};

/// A program of a seed: captured pieces and eager parts in turn. Its memory is allocated, freed and used across both.
class Program {
 public:
  Program(World& world, unsigned seed) : world_(world), random_(seed) {}

  void operator()() {
    for (unsigned ops = 8 + random_() % 20; ops > 0; --ops) step();
  }

 private:
  unsigned* any() {
    const std::size_t place = random_() % (blocks + inner_.size());
    return place < blocks ? world_.state[place].data() : inner_[place - blocks].data();
  }
  void allocate() {
    inner_.emplace_back(most);
    copy_async(inner_.back().data(), world_.state[random_() % blocks].data(), most * sizeof(unsigned));
  }
  void step() {
    const std::size_t count = 1 + random_() % most;
    switch (random_() % 12) {
      case 0:
      case 1:
        allocate();
        break;
      case 2:
        if (!inner_.empty()) inner_.erase(inner_.begin() + static_cast<std::ptrdiff_t>(random_() % inner_.size()));
        break;
      case 3:
        fork();
        break;
      case 4:
        random::test::draw(world_.generator, world_.numbers);
        mix(any(), world_.numbers.data(), count);
        break;
      case 5:
        decide(any(), any(), count);
        break;
      case 6:
        make(any(), count);
        break;
      case 7:
        draw_eagerly();
        break;
      default:
        mix(any(), any(), count);
    }
  }
  void fork() {
    const StreamRef here = current_stream();
    world_.side.wait(here);
    mix(world_.state[0].data(), world_.state[1].data(), most, world_.side);
    mix(world_.state[2].data(), world_.state[3].data(), most);
    here.wait(world_.side);
  }
  // The host decides what runs.
  void decide(unsigned* a, const unsigned* b, std::size_t count) {
    eager([world = &world_, a, b, count](StreamRef stream) {
      if (std::exchange(world->fails, false)) throw PartFailed();
      unsigned value = 0;
      copy_async(&value, a, sizeof(value), stream);
      stream.synchronize();
      world->seen.push_back(value);
      for (unsigned i = 0; i < value % 3; ++i) mix(a, b, count, stream);
    });
  }
  // A result of the host, of one or two buffers.
  void make(unsigned* a, std::size_t count) {
    const std::vector<Buffer<unsigned>> made =
        eager([world = &world_, a, count, buffers = 1 + random_() % 2](StreamRef stream) {
          std::vector<unsigned> values(count);
          copy_async(values.data(), a, count * sizeof(unsigned), stream);
          stream.synchronize();
          world->seen.push_back(values.back());
          for (unsigned& value : values) value ^= value >> 3;
          std::vector<Buffer<unsigned>> made;
          for (unsigned i = 0; i < buffers; ++i) made.emplace_back(values);
          return made;
        });
    for (const Buffer<unsigned>& each : made) mix(a, each.data(), count);
    if (random_() % 2 != 0) mix(any(), made[0].data(), count);
  }
  void draw_eagerly() {
    eager([world = &world_] {
      random::test::draw(world->generator, world->numbers, 2);
      mix(world->state[0].data(), world->numbers.data(), most);
    });
  }

  World& world_;
  std::mt19937 random_;
  std::vector<Buffer<unsigned>> inner_;
};

void expect_same(const World& eager, const World& other, const char* when) {
  ASSERT_EQ(eager.contents(), other.contents()) << when;
  ASSERT_EQ(eager.seen, other.seen) << when;
  ASSERT_EQ(eager.generator.get_state(), other.generator.get_state()) << when;
}

void run_program(unsigned seed) {
  SCOPED_TRACE(::testing::Message() << "program " << seed);
  const Stream stream, other;
  const StreamGuard guard(stream);
  World eager(seed), captured(seed), cached(seed);
  BreakableGraph graph;
  breakable(graph, {.allow_empty = true, .check_input_liveness = seed % 3 == 0}, [&] { Program(captured, seed)(); });
  GraphCache cache(
      {.capture_after = seed % 2, .capture = {.capture_error_mode = CaptureMode::thread, .allow_empty = true}});
  for (int run = 0; run < 5 && !::testing::Test::HasFatalFailure(); ++run) {
    const bool on_other = run == 3;
    if (on_other) other.wait(stream);
    {
      const StreamGuard here(on_other ? other.ref() : stream.ref());
      Program(eager, seed)();
      if (run != 0) graph.replay();
      cache.run({static_cast<int>(seed)}, [&] { Program(cached, seed)(); });
    }
    if (on_other) stream.wait(other);
    expect_same(eager, captured, "captured");
    expect_same(eager, cached, "cached");
  }
  EXPECT_EQ(cache.statistics().failed_captures.number, 0u);
}

// All that a failing replay has done is undone by the next ones: they begin at the beginning.
void run_failing_program(unsigned seed) {
  SCOPED_TRACE(::testing::Message() << "failing program " << seed);
  const SideStream side;
  World eager(seed), captured(seed);
  BreakableGraph graph;
  breakable(graph, {.allow_empty = true}, [&] { Program(captured, seed)(); });
  Program(eager, seed)();
  const auto fails = [](World& world, const auto& run) {
    world.fails = true;
    try {
      run();
    } catch (const PartFailed&) {
    }
    world.fails = false;
  };
  for (int run = 0; run < 2; ++run) {
    fails(captured, [&] { graph.replay(); });
    fails(eager, [&] { Program(eager, seed)(); });
    expect_same(eager, captured, "failed");
    graph.replay();
    Program(eager, seed)();
    expect_same(eager, captured, "after a failure");
  }
}

// Several programs in one cache, which releases their graphs again and again.
void run_in_small_cache(unsigned seed) {
  SCOPED_TRACE(::testing::Message() << "cache " << seed);
  const Warnings warnings;  // of keys that would thrash
  const SideStream side;
  World eager(seed), cached(seed);
  std::mt19937 random(seed);
  GraphCache cache({.max_entries = 1 + random() % 3,
                    .capture_after = random() % 2,
                    .check_every = random() % 3,
                    .capture = {.capture_error_mode = CaptureMode::thread, .allow_empty = true}});
  for (int call = 0; call < 20 && !::testing::Test::HasFatalFailure(); ++call) {
    const unsigned program = 100 * seed + random() % 4;
    Program(eager, program)();
    cache.run({program}, [&] { Program(cached, program)(); });
    expect_same(eager, cached, "in a small cache");
    if (random() % 10 == 0) cache.forget({100 * seed + random() % 4});
  }
  EXPECT_EQ(cache.statistics().failed_captures.number, 0u);
}

unsigned programs() {
  return static_cast<unsigned>(
      reprise::test::environment_number("REPRISE_BREAKABLE_PROGRAMS", 60, 0, std::numeric_limits<unsigned>::max()));
}

TEST(RandomProgramsWithEagerParts, ComputeWhatEagerOnesDo) {
  for (unsigned seed = 0; seed < programs() && !::testing::Test::HasFatalFailure(); ++seed) run_program(seed);
}

TEST(RandomProgramsWithEagerParts, ThatFailInAReplayDoWhatEagerOnesDo) {
  for (unsigned seed = 0; seed < programs() && !::testing::Test::HasFatalFailure(); ++seed) run_failing_program(seed);
}

TEST(RandomProgramsWithEagerParts, InACacheThatReleasesThemDoWhatEagerOnesDo) {
  for (unsigned seed = 0; seed < programs() / 4 && !::testing::Test::HasFatalFailure(); ++seed)
    run_in_small_cache(seed);
}

}  // namespace
}  // namespace reprise::breakables::test
