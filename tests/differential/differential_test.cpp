// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "reprise/reprise.h"
#include "tests/differential/run.h"
#include "tests/support/host_environment.h"
#include "tests/support/sanitizer.h"

// The generator, the shrinker, the printed source, and the host device's race check against the generator's own.

namespace reprise::differential {
namespace {

using ::testing::HasSubstr;

class HostDevices : public ::testing::Environment {
 public:
  void SetUp() override {
    test::set_host_environment({.memory_bytes = std::size_t{512} << 20, .check_races = true}, 2);
  }
};

const ::testing::Environment* const host_devices = ::testing::AddGlobalTestEnvironment(new HostDevices);

Device host() {
  return Device::parse("host:0");
}

Limits two_devices() {
  Limits limits;
  limits.devices = 2;
  return limits;
}

Operation operation(Kind kind, int stream) {
  Operation made;
  made.kind = kind;
  made.stream = stream;
  return made;
}

Operation fill(int stream, int buffer) {
  Operation made = operation(Kind::fill, stream);
  made.out.buffer = buffer;
  made.count = 32;
  made.value = 7;
  return made;
}

Operation wait_stream(int stream, int other) {
  Operation made = operation(Kind::wait_stream, stream);
  made.other_stream = other;
  return made;
}

/// Two streams, an event, a buffer.
Program empty_program() {
  Program program;
  program.streams = {{}, {}};
  program.events = {{}};
  program.buffers = {{Place::device, 0, 32}, {Place::inner, 0, 32}};
  return program;
}

TEST(RandomPrograms, ASeedGivesTheSameProgramAgain) {
  EXPECT_EQ(print_source(generate(5, {})), print_source(generate(5, {})));
  EXPECT_NE(print_source(generate(5, {})), print_source(generate(6, {})));
}

TEST(RandomPrograms, ASeedGivesTheSameProgramOnEveryMachine) {
  // Changes with the generator and the printed text. A seed in an old report may then mean another program.
  std::vector<std::uint32_t> characters;
  for (std::uint64_t seed = 1; seed <= 50; ++seed)
    for (const char c : print_source(generate(seed, two_devices())))
      characters.push_back(static_cast<unsigned char>(c));
  EXPECT_EQ(digest({.buffers = {characters}}), 2603646441388746784U);
}

TEST(RandomPrograms, AreOrderedAndCanBeCaptured) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Analysis analysis = analyse(generate(seed, seed % 2 == 0 ? Limits{} : two_devices()));
    EXPECT_TRUE(analysis.good()) << seed << ": " << analysis.invalid;
  }
}

TEST(RandomPrograms, HaveOperationsOfEachKind) {
  std::vector<int> counts(kinds);
  int discarded = 0, concurrent = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Program program = generate(seed, {});
    for (const Operation& each : program.operations) ++counts[static_cast<std::size_t>(each.kind)];
    discarded += program.discard_template ? 1 : 0;
    concurrent += program.concurrent ? 1 : 0;
  }
  for (std::size_t kind = 0; kind < counts.size(); ++kind) EXPECT_GT(counts[kind], 20) << name(static_cast<Kind>(kind));
  EXPECT_GT(discarded, 10);
  EXPECT_GT(concurrent, 10);
}

TEST(RandomPrograms, HaveEachFeature) {
  std::map<std::string, int> counts;
  for (std::uint64_t seed = 1; seed <= 1200; ++seed)
    for (const std::string& feature : features(generate(seed, seed % 4 == 0 ? two_devices() : Limits{})))
      ++counts[feature];
  for (const std::string& feature : all_features()) EXPECT_GT(counts[feature], 20) << feature;
  EXPECT_EQ(counts.size(), all_features().size());
}

TEST(Analysis, FindsWorkThatNothingOrders) {
  Program program = empty_program();
  program.operations = {wait_stream(1, 0), fill(0, 0), fill(1, 0), wait_stream(0, 1)};
  EXPECT_EQ(analyse(program).race, std::pair(std::size_t{1}, std::size_t{2}));
  program.operations = {fill(0, 0), wait_stream(1, 0), fill(1, 0), wait_stream(0, 1)};
  EXPECT_TRUE(analyse(program).good());
}

TEST(Analysis, RefusesWhatCannotBeCaptured) {
  Program program = empty_program();
  program.operations = {fill(1, 0)};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("has not joined"));
  program.operations = {wait_stream(1, 0), fill(1, 0)};
  EXPECT_EQ(analyse(program).invalid, "stream 1 is not joined at the end");
  program.operations = {fill(0, 1)};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("is not there"));
  program.operations = {wait_stream(1, 0)};
  EXPECT_EQ(analyse(program).invalid, "there is no work");
}

TEST(Analysis, AStreamEndsOnceAndAfterItNothingUsesIt) {
  Program program = empty_program();
  const Operation end = operation(Kind::end_stream, 1);
  program.operations = {fill(0, 0), operation(Kind::end_stream, 0)};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("destroys the stream of the capture"));
  program.operations = {wait_stream(1, 0), fill(1, 0), end};
  EXPECT_EQ(analyse(program).invalid, "stream 1 is not joined at the end");
  program.operations = {wait_stream(1, 0), fill(1, 0), wait_stream(0, 1), end};
  EXPECT_TRUE(analyse(program).good());
  for (const Operation& use : {end, fill(1, 0), wait_stream(0, 1), wait_stream(1, 0), operation(Kind::exhaust, 1),
                               operation(Kind::free_beside, 1)}) {
    program.operations.resize(4);
    program.operations.push_back(use);
    EXPECT_FALSE(analyse(program).good()) << name(use.kind);
  }
}

TEST(Analysis, ABodyIsOrderedAsItsOperationsAre) {
  Program program = empty_program();
  program.bodies = {{0, false, {fill(0, 0)}}, {0, false, {operation(Kind::child, 0)}}};
  program.bodies[1].operations[0].body = 0;
  Operation child = operation(Kind::child, 1);
  child.body = 1;
  program.operations = {wait_stream(1, 0), fill(0, 0), child, wait_stream(0, 1)};
  EXPECT_EQ(analyse(program).race, std::pair(std::size_t{1}, std::size_t{2}));
  program.operations = {fill(0, 0), wait_stream(1, 0), child, wait_stream(0, 1)};
  EXPECT_TRUE(analyse(program).good());
  program.bodies[1].operations[0].body = 1;
  EXPECT_THAT(analyse(program).invalid, HasSubstr("runs a body within itself"));
  program.bodies[1].operations[0] = operation(Kind::record, 0);
  EXPECT_THAT(analyse(program).invalid, HasSubstr("an operation that bodies do not have"));
  program.bodies[1] = {1, false, {fill(0, 0)}};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("a body of another device"));
}

TEST(Analysis, OrderedMemoryIsFreedOnAnyStreamAfterItsUses) {
  Program program = empty_program();
  program.buffers[1].place = Place::ordered;
  Operation allocate = fill(0, 1), free = fill(1, 1);
  allocate.kind = Kind::allocate_async;
  free.kind = Kind::free_async;
  program.operations = {allocate, wait_stream(1, 0), free, wait_stream(0, 1)};
  EXPECT_TRUE(analyse(program).good()) << analyse(program).invalid;
  program.operations = {allocate, wait_stream(1, 0), fill(0, 1), free, wait_stream(0, 1)};
  EXPECT_TRUE(analyse(program).race);
  program.operations = {allocate, wait_stream(1, 0), free, fill(1, 1), wait_stream(0, 1)};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("is not there"));
  program.operations = {allocate};
  EXPECT_TRUE(analyse(program).good()) << "a replay leaves it";
  program.changes = {{How::update, {}}};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("a graph with allocation nodes or control flow is updated"));
}

TEST(Analysis, BuffersThatChangePlacesAreAlike) {
  Program program = empty_program();
  program.buffers.push_back({Place::device, 0, 32});
  program.operations = {fill(0, 0)};
  program.changes = {{How::set_addresses, {.exchanged = true}}};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("buffers that are not there change places"));
  program.changes[0].to = {};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("buffers that are not there change places"));
  EXPECT_EQ(compact(program).exchanged, program.exchanged);
  program.exchanged = {0, 2};
  EXPECT_TRUE(analyse(program).good());
  program.exchanged = {0, 1};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("not alike"));
  program.exchanged = {0, 2};
  program.discard_template = true;
  EXPECT_THAT(analyse(program).invalid, HasSubstr("a graph without a template is changed"));
}

TEST(Analysis, ABlockCanBeFreedAfterItsStream) {
  Program program = empty_program();
  Operation allocate = fill(1, 1), free = fill(1, 1), recorded = fill(0, 1);
  allocate.kind = Kind::allocate;
  free.kind = Kind::free;
  recorded.kind = Kind::record_stream;
  const Operation end = operation(Kind::end_stream, 1);
  program.operations = {wait_stream(1, 0), allocate, wait_stream(0, 1), end, free};
  EXPECT_TRUE(analyse(program).good());
  program.operations = {wait_stream(1, 0), allocate, wait_stream(0, 1), end, fill(0, 1), free};
  EXPECT_TRUE(analyse(program).race) << "the destroyed stream is not ordered after the use";
  program.operations = {wait_stream(1, 0), allocate, wait_stream(0, 1), end, fill(0, 1), recorded, free};
  EXPECT_TRUE(analyse(program).good());
}

TEST(Analysis, AFreeWaitsForTheUsesThatTheAllocatorWasNotToldOf) {
  Program program = empty_program();
  Operation allocate = fill(0, 1), free = fill(0, 1), recorded = fill(1, 1);
  allocate.kind = Kind::allocate;
  free.kind = Kind::free;
  recorded.kind = Kind::record_stream;
  program.operations = {allocate, wait_stream(1, 0), fill(1, 1), free, wait_stream(0, 1)};
  EXPECT_TRUE(analyse(program).race);
  program.operations = {allocate, wait_stream(1, 0), fill(1, 1), recorded, free, wait_stream(0, 1)};
  EXPECT_TRUE(analyse(program).good());
}

// Takes each wait out of many programs. The generator's own order says whether that makes a race; the race check must
// say the same, of the eager run and of the graph.
TEST(RaceCheckOfTheHostDevice, FindsAProgramsRaceWhenAWaitIsTakenOutAndNoneOtherwise) {
#if defined(REPRISE_TESTED_WITH_TSAN)
  GTEST_SKIP() << "the programs have races on purpose, which the sanitizer sees";
#endif
  const RaceReports reports;
  Limits limits = two_devices();
  limits.concurrent = false;
  limits.bodies = false;   // copies of one graph run one after another, which eager work need not
  limits.changes = false;  // replays are compared once
  limits.frees = false;    // what is ordered depends on whether an event is complete when the allocator queries it
  const int programs = test::with_address_sanitizer ? 30 : 100;
  int races = 0, still_ordered = 0;
  for (int seed = 1; seed <= programs; ++seed) {
    const Program program = generate(static_cast<std::uint64_t>(seed), limits);
    for (std::size_t i = 0; i < program.operations.size(); ++i) {
      const Kind kind = program.operations[i].kind;
      if (kind != Kind::wait && kind != Kind::wait_stream) continue;
      Program mutant = program;
      mutant.operations.erase(mutant.operations.begin() + static_cast<std::ptrdiff_t>(i));
      const Analysis analysis = analyse(mutant);
      if (!analysis.invalid.empty()) continue;
      const Eager eager = run_eagerly(mutant, host());
      const bool found_eagerly = !RaceReports::take().empty();
      (void)compare_captured(mutant, host(), eager, {});
      const bool found_in_graph = !RaceReports::take().empty();
      ASSERT_EQ(found_eagerly, analysis.race.has_value()) << "seed " << seed << " without operation " << i;
      ASSERT_EQ(found_in_graph, analysis.race.has_value()) << "seed " << seed << " without operation " << i;
      ++(analysis.race ? races : still_ordered);
    }
  }
  EXPECT_GT(races, programs);
  EXPECT_GT(still_ordered, programs / 5);
}

class AFault : public ::testing::TestWithParam<Kind> {};

TEST_P(AFault, OfTheCapturedRunIsFoundAndShrunkToOneOperation) {
  const RaceReports reports;
  const Fault fault = GetParam();
  const auto fails = [&](const Program& program) {
    return examine(program, host(), {}, fault).failure == Failure::differs;
  };
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 40 && found < 3; ++seed) {
    const Program program = generate(seed, seed % 2 == 0 ? Limits{} : two_devices());
    ASSERT_EQ(examine(program, host()).failure, Failure::none) << seed;
    if (!fails(program)) continue;
    ++found;
    const Program small = shrink(program, fails);
    EXPECT_TRUE(fails(small)) << seed;
    EXPECT_EQ(small.operations.size(), 1U) << seed << "\n" << print_source(small);
    EXPECT_EQ(small.operations[0].kind, GetParam()) << seed;
    EXPECT_EQ(small.streams.size(), 1U) << seed;
    EXPECT_LE(small.buffers.size(), 3U) << seed;
  }
  EXPECT_EQ(found, 3);
}

std::string name_of_kind(const ::testing::TestParamInfo<Kind>& info) {
  return name(info.param);
}
INSTANTIATE_TEST_SUITE_P(OfAKind, AFault,
                         ::testing::Values(Kind::map, Kind::mix, Kind::scan, Kind::draw, Kind::scratch, Kind::fill,
                                           Kind::allocate, Kind::allocate_async),
                         name_of_kind);

// The versions that a graph is changed to are those that ran eagerly: if the graph stays in another one, that is found.
class AChange : public ::testing::TestWithParam<How> {};

TEST_P(AChange, ThatDoesNotLeadToItsVersionIsFound) {
  const RaceReports reports;
  int found = 0, same = 0;
  for (std::uint64_t seed = 1; seed <= 1500 && found < 3; ++seed) {
    Program program = generate(seed, {});
    if (program.changes.empty() || program.changes.front().how != GetParam()) continue;
    program.changes.resize(1);
    program.concurrent = false;
    const Version target = program.changes[0].to;
    const Eager eager = run_eagerly(program, host());
    ASSERT_EQ(compare_captured(program, host(), eager, {}), "") << seed;
    // Changing to no version leaves the first one, which the graph is in already.
    if (eager.changed[0] == eager.once || target == Version{}) continue;
    program.changes[0].to = {};
    const std::string text = compare_captured(program, host(), eager, {});
    ++(text.empty() ? same : found);
    EXPECT_THAT(text, HasSubstr(std::string("after change 0, ") + name(GetParam()))) << seed;
  }
  EXPECT_EQ(found, 3);
  EXPECT_EQ(same, 0);
}

std::string name_of_how(const ::testing::TestParamInfo<How>& info) {
  return name(info.param);
}
INSTANTIATE_TEST_SUITE_P(How, AChange,
                         ::testing::Values(How::set_arg, How::set, How::set_addresses, How::set_enabled, How::update,
                                           How::recapture, How::recapture_anew),
                         name_of_how);

class AFailure : public ::testing::TestWithParam<Kind> {};

TEST_P(AFailure, OfAnOperationWithoutAValueIsFoundAndShrunk) {
  const RaceReports reports;
  const Fault fault = GetParam();
  const auto fails = [&](const Program& program) {
    return examine(program, host(), {}, fault).failure == Failure::exception;
  };
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 200 && found < 3; ++seed) {
    const Program program = generate(seed, two_devices());
    if (!fails(program)) continue;
    ASSERT_EQ(examine(program, host()).failure, Failure::none) << seed;
    ++found;
    const Program small = shrink(program, fails);
    EXPECT_TRUE(fails(small)) << seed;
    // Work, and for the end of a stream a fork, which may be a record and a wait.
    EXPECT_LE(small.operations.size(), GetParam() == Kind::end_stream ? 4U : 2U) << seed << "\n" << print_source(small);
    EXPECT_TRUE(std::ranges::any_of(small.operations, [&](const Operation& each) { return each.kind == GetParam(); }));
    EXPECT_FALSE(small.concurrent || small.discard_template) << seed;
  }
  EXPECT_EQ(found, 3);
  const Program good = generate(1, two_devices());
  EXPECT_EQ(examine(good, host()).failure, Failure::none) << "everything is usable after the failures";
}
INSTANTIATE_TEST_SUITE_P(OfAKind, AFailure, ::testing::Values(Kind::end_stream, Kind::exhaust, Kind::free_beside),
                         name_of_kind);

TEST(Shrinking, KeepsTheOptionsThatTheFailureNeeds) {
  const auto kept = [](bool Program::*option) {
    const auto fails = [option](const Program& candidate) { return candidate.*option; };
    std::uint64_t seed = 1;
    while (!fails(generate(seed, {}))) ++seed;
    return shrink(generate(seed, {}), fails);
  };
  EXPECT_TRUE(kept(&Program::concurrent).concurrent);
  EXPECT_FALSE(kept(&Program::concurrent).discard_template);
  EXPECT_TRUE(kept(&Program::discard_template).discard_template);
  EXPECT_FALSE(kept(&Program::discard_template).concurrent);
}

TEST(Shrinking, RunsTheOperationsOfABodyInsteadOfAChild) {
  const auto fails = [](const Program& candidate) {
    return std::ranges::any_of(candidate.operations, [](const Operation& each) { return each.kind == Kind::scratch; });
  };
  Program program = empty_program();
  Operation scratch = fill(0, 0);
  scratch.kind = Kind::scratch;
  scratch.in = {2, 0};
  program.buffers.push_back({Place::device, 0, 32});
  program.bodies = {{0, false, {fill(0, 2), scratch}}};
  program.operations = {fill(0, 0), operation(Kind::child, 0), fill(0, 2)};
  program.operations[1].body = 0;
  ASSERT_TRUE(analyse(program).good()) << analyse(program).invalid;
  const auto fails_or_child = [&](const Program& candidate) {
    return fails(candidate) || std::ranges::any_of(candidate.operations, [&](const Operation& each) {
             return each.kind == Kind::child &&
                    std::ranges::any_of(candidate.bodies[0].operations,
                                        [](const Operation& inner) { return inner.kind == Kind::scratch; });
           });
  };
  const Program small = shrink(program, fails_or_child);
  ASSERT_EQ(small.operations.size(), 1U) << print_source(small);
  EXPECT_EQ(small.operations[0].kind, Kind::scratch);
  EXPECT_TRUE(small.bodies.empty());
}

TEST(Shrinking, KeepsTheChangesThatTheFailureNeeds) {
  const auto fails = [](const Program& candidate) {
    return std::ranges::any_of(candidate.changes, [](const Change& change) { return change.how == How::update; });
  };
  std::uint64_t seed = 1;
  while (generate(seed, {}).changes.size() < 3 || !fails(generate(seed, {}))) ++seed;
  const Program small = shrink(generate(seed, {}), fails);
  ASSERT_EQ(small.changes.size(), 1U);
  EXPECT_EQ(small.changes[0].how, How::update);
  EXPECT_EQ(small.operations.size(), 1U);
  EXPECT_FALSE(small.auto_free || small.keep_graph);
}

TEST(Shrinking, KeepsWhatTheFailureNeeds) {
  const auto fails = [](const Program& candidate) {
    const auto is = [](Kind kind) { return [kind](const Operation& each) { return each.kind == kind; }; };
    const auto& all = candidate.operations;
    return std::any_of(all.begin(), all.end(), is(Kind::free)) &&
           std::any_of(all.begin(), all.end(), [](const Operation& each) { return each.stream == 1; });
  };
  std::uint64_t seed = 1;
  while (!fails(generate(seed, two_devices()))) ++seed;
  const Program small = shrink(generate(seed, two_devices()), fails);
  EXPECT_TRUE(fails(small));
  EXPECT_TRUE(analyse(small).good());
  // An allocation and its free; a fork, which is a record and a wait; a join.
  EXPECT_LE(small.operations.size(), 5U) << print_source(small);
}

TEST(PrintedSource, HasALineForEachOperation) {
  Program program = empty_program();
  Operation map = fill(1, 0), mix = fill(0, 1), copy = fill(0, 1), allocate = fill(0, 1),
            record = operation(Kind::record, 1), wait = operation(Kind::wait, 0), free = fill(0, 1),
            recorded = fill(1, 1);
  map.kind = Kind::map;
  map.in = {0, 0};
  mix.kind = Kind::mix;
  mix.in = {0, 0};
  mix.in2 = {0, 0};
  copy.kind = Kind::copy;
  copy.in = {0, 16};
  copy.count = 16;
  allocate.kind = Kind::allocate;
  record.event = wait.event = 0;
  free.kind = Kind::free;
  recorded.kind = Kind::record_stream;
  program.operations = {allocate,
                        wait_stream(1, 0),
                        map,
                        record,
                        wait,
                        mix,
                        copy,
                        recorded,
                        free,
                        operation(Kind::exhaust, 0),
                        operation(Kind::free_beside, 1),
                        operation(Kind::end_stream, 1)};
  program.discard_template = program.concurrent = true;
  ASSERT_TRUE(analyse(program).good()) << analyse(program).invalid;
  EXPECT_THAT(print_source(program), HasSubstr(R"(  void submit() {
    b1.reset(), b1 = Buffer<Word>(32, s0), b1.fill_bytes_async(7, s0);
    s1.wait(s0.ref());
    launch(s1, shape(32), Map{}, b0.data(), b0.data(), 0x7U, 32U);
    e0.record(s1);
    e0.wait(s0);
    launch(s0, shape(32), Mix{}, b1.data(), b0.data(), b0.data(), 0x7U, 32U);
    copy_async(b1.data(), b0.data() + 16, 16 * sizeof(Word), s0);
    b1.record_stream(s1);
    b1.reset();
    exhaust(s0);
    free_beside(s1);
    { const Stream ended = std::move(s1); } s1 = Stream(device(0), {false});
  }
)"));
  EXPECT_THAT(print_source(program), HasSubstr("  options.discard_template = true;\n"));
  EXPECT_THAT(print_source(program), HasSubstr("run({0, 0})"));
}

}  // namespace
}  // namespace reprise::differential
