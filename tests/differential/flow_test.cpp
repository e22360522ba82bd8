// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "reprise/reprise.h"
#include "tests/differential/run.h"

// Control flow of random programs.

namespace reprise::differential {
namespace {

using ::testing::HasSubstr;

/// `out` is written, and its first value read, too.
Operation flow_work(Kind kind, int out, std::uint32_t value = 0) {
  Operation made;
  made.kind = kind;
  made.out = {out, 0};
  made.in = {out, 0};
  made.count = 32;
  made.value = value;
  return made;
}

/// Decided by the first value of buffer 0.
Operation flow(Kind kind, std::vector<int> bodies, std::uint32_t value = 0) {
  Operation made;
  made.kind = kind;
  made.in = {0, 0};
  made.count = 1;
  made.value = value;
  made.body = bodies.front();
  made.further_bodies.assign(bodies.begin() + 1, bodies.end());
  return made;
}

Operation child_of_flow(int body) {
  Operation made;
  made.kind = Kind::child;
  made.body = body;
  return made;
}

/// Two streams and three buffers. A body that adds i to each value i of buffer 1, one that draws into buffer 2.
Program program_with_bodies() {
  Program program;
  program.streams = {{}, {}};
  program.buffers = {{Place::device, 0, 32}, {Place::device, 0, 32}, {Place::device, 0, 32}};
  program.bodies = {{0, false, {flow_work(Kind::map, 1)}}, {0, false, {flow_work(Kind::draw, 2)}}};
  return program;
}

Operation wait_of_flow(int stream, int other) {
  Operation made;
  made.kind = Kind::wait_stream;
  made.stream = stream;
  made.other_stream = other;
  return made;
}

Device flow_host() {
  return Device::parse("host:0");
}

/// What is in the buffer after a run, which a graph has to leave, too.
std::vector<std::uint32_t> left_in(const Program& program, std::size_t buffer) {
  EXPECT_TRUE(analyse(program).good()) << analyse(program).invalid;
  const Eager eager = run_eagerly(program, flow_host());
  EXPECT_EQ(compare_captured(program, flow_host(), eager, {}), "");
  return eager.once.buffers[buffer];
}

/// How often a run adds to buffer 1.
std::uint32_t additions(const Program& program) {
  Program idle = program;
  idle.operations = {flow_work(Kind::fill, 2)};
  return left_in(program, 1)[1] - left_in(idle, 1)[1];
}

TEST(AnalysisOfControlFlow, ItReadsItsConditionAndTouchesWhatItsBodiesDo) {
  for (const Kind kind : {Kind::if_, Kind::while_}) {
    Program program = program_with_bodies();
    program.operations = {wait_of_flow(1, 0), flow(kind, {0}), flow_work(Kind::fill, 0), wait_of_flow(0, 1)};
    program.operations[2].stream = 1;
    EXPECT_EQ(analyse(program).race, std::pair(std::size_t{1}, std::size_t{2})) << "the condition";
    program.operations[2].out = {1, 0};
    EXPECT_EQ(analyse(program).race, std::pair(std::size_t{1}, std::size_t{2})) << "the body";
    program.operations[2].out = {2, 0};
    EXPECT_TRUE(analyse(program).good());
  }
  Program program = program_with_bodies();
  program.operations = {wait_of_flow(1, 0), flow(Kind::if_else, {0, 1}), flow_work(Kind::fill, 2), wait_of_flow(0, 1)};
  program.operations[2].stream = 1;
  EXPECT_EQ(analyse(program).race, std::pair(std::size_t{1}, std::size_t{2})) << "the other body";
}

TEST(AnalysisOfControlFlow, RefusesWhatCannotBeCaptured) {
  Program program = program_with_bodies();
  program.operations = {flow(Kind::while_, {1})};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("random numbers in a loop without a limit"));
  program.operations[0].limit = 2;
  EXPECT_TRUE(analyse(program).good()) << analyse(program).invalid;
  program.operations = {flow(Kind::if_, {0, 1})};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("more or fewer bodies"));
  program.operations = {flow(Kind::if_else, {0})};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("more or fewer bodies"));
  program.buffers.push_back({Place::inner, 0, 32});
  program.operations = {flow(Kind::if_, {0})};
  program.operations[0].in.buffer = 3;
  EXPECT_THAT(analyse(program).invalid, HasSubstr("is not there"));
  program.bodies.push_back({0, false, {flow(Kind::if_, {0})}});
  program.bodies.push_back({0, false, {flow(Kind::switch_, {2})}});
  program.operations = {child_of_flow(3)};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("a child graph that has control flow"));
  program.operations = {flow(Kind::if_, {3})};
  EXPECT_TRUE(analyse(program).good()) << analyse(program).invalid;
  program.bodies[2].operations[0].body = 2;
  EXPECT_THAT(analyse(program).invalid, HasSubstr("runs a body within itself"));
}

TEST(AnalysisOfControlFlow, RefusesChangesThatItsGraphCannotHave) {
  Program program = program_with_bodies();
  program.operations = {flow(Kind::if_, {0})};
  program.changes = {{How::update, {}}};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("control flow is updated"));
  program.changes = {{How::set, {.parameters = true}}};
  program.bodies[0].operations[0].varies = Varies::by_parameter;
  EXPECT_TRUE(analyse(program).good()) << analyse(program).invalid;
  program.operations = {child_of_flow(0)};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("a parameter of the graph in a child"));
}

TEST(AnalysisOfControlFlow, ChangesLeadToTheVersionsThatTheyCanLeadTo) {
  Program program = program_with_bodies();
  program.operations = {flow_work(Kind::fill, 0)};
  program.changes = {{How::set_enabled, {.resting = true}}, {How::recapture, {.parameters = true, .resting = true}}};
  EXPECT_TRUE(analyse(program).good()) << "in place, nodes keep resting: " << analyse(program).invalid;
  program.operations.push_back(flow(Kind::if_, {0}));
  EXPECT_THAT(analyse(program).invalid, HasSubstr("a version that it cannot lead to")) << "a new executable";
  program.changes = {{How::set_arg, {.nodes = true}}, {How::set, {.parameters = true}}};
  EXPECT_THAT(analyse(program).invalid, HasSubstr("a version that it cannot lead to")) << "values of nodes stay";
  program.changes[1].to.nodes = true;
  EXPECT_TRUE(analyse(program).good()) << analyse(program).invalid;
}

TEST(ControlFlowOfPrograms, EachConditionOccurs) {
  std::multiset<std::uint32_t> with_if, of_loop, of_stopped_loop;
  std::multiset<std::vector<std::uint32_t>> of_switch;
  for (std::uint32_t value = 0; value < 4; ++value) {
    Program program = program_with_bodies();
    program.operations = {flow(Kind::if_, {0}, value)};
    with_if.insert(additions(program));
    program.operations = {flow(Kind::while_, {0}, value)};
    of_loop.insert(additions(program));
    program.operations[0].limit = 2;
    of_stopped_loop.insert(additions(program));
    program.bodies[1].operations = {flow_work(Kind::map, 2)};
    program.operations = {flow(Kind::switch_, {0, 1}, value)};
    if (value < 3) of_switch.insert({additions(program), left_in(program, 2)[1] & 1U});
  }
  EXPECT_EQ(with_if, (std::multiset<std::uint32_t>{0, 0, 1, 1}));
  EXPECT_EQ(of_loop, (std::multiset<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(of_stopped_loop, (std::multiset<std::uint32_t>{0, 1, 2, 2}));
  EXPECT_EQ(std::set(of_switch.begin(), of_switch.end()).size(), 3U) << "the first body, the second one, none";
}

TEST(ControlFlowOfPrograms, BodiesCountAsDrawnWhetherTheyRunOrNot) {
  for (const auto& [kind, limit] :
       {std::pair(Kind::if_, 0U), std::pair(Kind::while_, 2U), std::pair(Kind::while_, 4U)}) {
    std::set<std::vector<std::uint32_t>> after, within;
    for (std::uint32_t value = 0; value < 4; ++value) {
      Program program = program_with_bodies();
      program.operations = {flow(kind, {1}, value), flow_work(Kind::draw, 1)};
      program.operations[0].limit = limit;
      after.insert(left_in(program, 1));
      within.insert(left_in(program, 2));
    }
    EXPECT_EQ(after.size(), 1U) << name(kind) << " " << limit;
    EXPECT_EQ(within.size(), kind == Kind::if_ ? 2U : limit == 2 ? 3U : 4U) << name(kind) << " " << limit;
  }
}

TEST(ControlFlowOfPrograms, InTheirBodiesIsControlFlow) {
  Program program = program_with_bodies();
  program.bodies.push_back({0, false, {flow(Kind::while_, {0}), child_of_flow(1)}});
  program.bodies[2].operations[0].limit = 4;
  program.operations = {flow(Kind::while_, {2}), flow_work(Kind::draw, 0)};
  program.operations[0].limit = 4;
  EXPECT_EQ(draws_of(program, program.operations[0]), (Draws{4, 0}));
  std::multiset<std::uint32_t> found;
  for (std::uint32_t value = 0; value < 4; ++value) {
    program.operations[0].value = value;
    program.bodies[2].operations[0].value = value;
    found.insert(additions(program));
  }
  EXPECT_EQ(found, (std::multiset<std::uint32_t>{0, 1, 4, 9}));
}

class AWrongCondition : public ::testing::TestWithParam<Kind> {};

TEST_P(AWrongCondition, OfTheCapturedRunIsFoundAndShrunk) {
  const RaceReports reports;
  const Kind kind = GetParam();
  const auto fails = [kind](const Program& program) {
    return examine(program, flow_host(), {}, kind).failure == Failure::differs;
  };
  Limits limits;
  limits.max_operations = 12;
  limits.concurrent = false;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Program program = generate(seed, limits);
    if (!std::ranges::count(program.operations, kind, &Operation::kind) || !fails(program)) continue;
    ASSERT_EQ(examine(program, flow_host()).failure, Failure::none) << seed;
    const Program small = shrink(program, fails);
    EXPECT_TRUE(fails(small)) << seed;
    // The operation, and one that writes its condition where the initial one decides the same.
    EXPECT_LE(small.operations.size(), 2U) << seed << "\n" << print_source(small);
    EXPECT_EQ(small.operations.back().kind, kind) << seed;
    EXPECT_LE(small.bodies.size(), 2U) << seed << "\n" << print_source(small);
    return;
  }
  FAIL() << "in no program";
}

std::string name_of_flow(const ::testing::TestParamInfo<Kind>& info) {
  return name(info.param);
}
INSTANTIATE_TEST_SUITE_P(Of, AWrongCondition, ::testing::Values(Kind::if_, Kind::if_else, Kind::switch_, Kind::while_),
                         name_of_flow);

TEST(ShrinkingOfControlFlow, LeavesTheOperationThatFails) {
  const auto has_scan = [](const Program& candidate) {
    return std::ranges::any_of(candidate.operations, [](const Operation& each) { return each.kind == Kind::scan; }) ||
           std::ranges::any_of(candidate.bodies, [](const Body& body) {
             return std::ranges::any_of(body.operations, [](const Operation& each) { return each.kind == Kind::scan; });
           });
  };
  Program program = program_with_bodies();
  Operation scan = flow_work(Kind::scan, 2);
  scan.in = {1, 0};
  program.bodies.push_back({0, false, {flow_work(Kind::fill, 1), scan}});
  program.bodies.push_back({0, false, {flow(Kind::switch_, {0, 2})}});
  program.operations = {flow(Kind::while_, {3})};
  const Program small = shrink(program, [&](const Program& candidate) { return has_scan(compact(candidate)); });
  ASSERT_EQ(small.operations.size(), 1U) << print_source(small);
  EXPECT_EQ(small.operations[0].kind, Kind::scan);
  const auto has_flow = [](const Program& candidate) {
    return std::ranges::any_of(candidate.operations, is_control_flow, &Operation::kind);
  };
  const Program smallest = shrink(program, has_flow);
  ASSERT_EQ(smallest.operations.size(), 1U) << print_source(smallest);
  EXPECT_EQ(smallest.operations[0].kind, Kind::if_);
  EXPECT_EQ(smallest.bodies.size(), 1U) << print_source(smallest);
}

TEST(PrintedSourceOfControlFlow, HasItsCallAndItsCondition) {
  Program program = program_with_bodies();
  program.bodies.push_back({0, false, {flow(Kind::if_else, {0, 1}, 5)}});
  program.operations = {flow(Kind::switch_, {0, 2}, 6), flow(Kind::while_, {1}, 7)};
  program.operations[1].in = {1, 8};
  program.operations[1].limit = 2;
  ASSERT_TRUE(analyse(program).good()) << analyse(program).invalid;
  const std::string source = print_source(program);
  EXPECT_THAT(source, HasSubstr(R"(  void submit() {
    flow(s0, c0, b0.data(), 0x6U, 3).switch_({{[&](const StreamRef& s) { body0(s); }, {0, 0}}, {[&](const StreamRef& s) { body2(s); }, {1, 0}}});
    flow(s0, c1, b1.data() + 8, 0x7U, 4).while_({[&](const StreamRef& s) { body1(s); }, {1, 0}}, 2);
  }
)"));
  EXPECT_THAT(source, HasSubstr("    flow(stream, c4, b0.data(), 0x5U, 2).if_else({"));
  for (const char* const word : {"c0", "c1", "c4"})
    EXPECT_THAT(source, HasSubstr(std::string("  Buffer<Word> ") + word + "{words_of_condition, own0};\n"));
}

}  // namespace
}  // namespace reprise::differential
